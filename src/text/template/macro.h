// Macros and loops as values of templates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/interpreter.h"

namespace braid::jinja {

class Macro : public Object {
 public:
  Macro(std::shared_ptr<const MacroDefinition> definition, ScopePtr scope)
      : definition_(std::move(definition)), scope_(std::move(scope)) {}
  std::string_view type() const override { return "Macro"; }
  std::string repr() const override { return fmt::format("<Macro '{}'>", definition_->name); }
  bool callable() const override { return true; }
  std::optional<Value> attribute(std::string_view name) override;
  Value call(Interpreter& interpreter, Arguments arguments) override {
    const auto held = shared_from_this();
    return interpreter.call_macro(*definition_, scope_, std::move(arguments));
  }

 private:
  std::shared_ptr<const MacroDefinition> definition_;
  ScopePtr scope_;
};

// Puts the arguments of a call into the macro's scope: one variable per parameter, in order (those not given under the
// number -1), then the special ones that it reads.
void bind_macro_arguments(const MacroDefinition& macro, Arguments arguments, Scope& scope);

// The variable `loop`, which also drives the loop: looking ahead takes items early.
class Loop : public Object {
 public:
  struct Source {
    Iterator next;
    std::optional<int64_t> length;  // where known without walking
    int depth = 0;
    std::function<Value(Interpreter&, const Value&)> recurse;  // renders the loop over other items
  };

  explicit Loop(Source source) : source_(std::move(source)) {}
  std::string_view type() const override { return "LoopContext"; }
  std::string repr() const override { return fmt::format("<LoopContext {}/{}>", index_ + 1, index_ + 1); }
  bool callable() const override { return true; }
  std::optional<Value> attribute(std::string_view name) override;
  Value call(Interpreter& interpreter, Arguments arguments) override;
  void forget() override;

  // Moves to the next item, which current() then gives; false at the end.
  bool advance();
  const Value& current() const { return current_; }

 private:
  const std::optional<Value>& ahead();
  int64_t length();
  std::optional<Value> position(std::string_view name);

  Source source_;
  int64_t index_ = -1;
  Value before_, current_;
  std::optional<Value> ahead_;
  std::deque<Value> rest_;  // items walked over to find the length
  bool walked_ = false;
  std::optional<Value> last_changed_;
  bool remembered_ = false;
};

}  // namespace braid::jinja
