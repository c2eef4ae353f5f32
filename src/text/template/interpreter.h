// Interpreter: one rendering of a program with one context.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/template/limits.h"
#include "text/template/syntax_tree.h"

namespace braid::jinja {

// The variables of a body; reading goes on in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;

  const Value* find(int symbol) const;  // here or in a parent
  void set(int symbol, Value value);    // here
};

using ScopePtr = std::shared_ptr<Scope>;

class Loop;

// Used by one thread, for one rendering. Neither program nor options are changed.
class Interpreter {
 public:
  Interpreter(const Program& program, const TemplateOptions& options) : program_(program), options_(options) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws Fault; line() then tells where.
  std::string render(const Json& context);
  int line() const { return line_; }

  // ---- for builtins
  Value call(const Value& callee, Arguments arguments);
  Value call_macro(const MacroDefinition& macro, const ScopePtr& defined_in, Arguments arguments);
  // Has the object drop what it holds when the rendering ends, since it may be part of a circle.
  void remember(std::shared_ptr<Object> object) { remembered_.push_back(std::move(object)); }
  // Counts work towards the limits.
  void count_steps(uint64_t steps);
  void count_built(const Value& value);
  std::tm now() const;

 private:
  enum class Flow { Next, Break, Continue };
  class Deeper;

  void load_context(const Json& context);
  ScopePtr new_scope(const ScopePtr& parent, int frame) const;

  Value evaluate(const Expression& expression);
  Value visit(const Constant& node);
  Value visit(const Name& node);
  Value visit(const TupleDisplay& node);
  Value visit(const ListDisplay& node);
  Value visit(const DictDisplay& node);
  Value visit(const Unary& node);
  Value visit(const Binary& node);
  Value visit(const Logical& node);
  Value visit(const Comparison& node);
  Value visit(const Concatenation& node);
  Value visit(const Conditional& node);
  Value visit(const AttributeAccess& node);
  Value visit(const ItemAccess& node);
  Value visit(const SliceAccess& node);
  Value visit(const Call& node);
  Value visit(const FilterUse& node);
  Value visit(const TestUse& node);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions);
  Arguments evaluate_arguments(const CallArguments& arguments);
  bool compare(Comparator comparator, const Value& left, const Value& right);
  Value evaluate_call(const Call& node, const Value* caller);

  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow visit(const Data& node);
  Flow visit(const Output& node);
  Flow visit(const If& node);
  Flow visit(const For& node);
  Flow visit(const Set& node);
  Flow visit(const SetBlock& node);
  Flow visit(const MacroStatement& node);
  Flow visit(const CallBlock& node);
  Flow visit(const FilterBlock& node);
  Flow visit(const With& node);
  Flow visit(const Scoped& node);
  Flow visit(const Break&) { return Flow::Break; }
  Flow visit(const Continue&) { return Flow::Continue; }

  Flow run_loop(const For& node, const Value& iterable, const ScopePtr& outer, int depth);
  Iterator selected(const For& node, Iterator all, const ScopePtr& outer);
  std::shared_ptr<Loop> make_loop(const For& node, const Value& iterable, const ScopePtr& outer, int depth);
  Flow run_iteration(const For& node, const Value& item, const Value* loop);
  void assign(const Target& target, Value value);
  Value assigned(const Target& target) const;
  // Executes in a new scope, with its output apart.
  std::pair<std::string, Flow> capture(const Body& body, ScopePtr scope);
  Value apply_captured(const ExpressionPtr& filter, std::string text);
  void emit(std::string_view text);
  void emit_text(const Value& value);
  Value macro_value(const std::shared_ptr<const MacroDefinition>& definition);

  const Program& program_;
  const TemplateOptions& options_;
  std::vector<Value> globals_;  // by symbol
  // By frame: the variables that hide one of the context's from the start, as undefined.
  std::vector<std::vector<std::pair<int, Value>>> hidden_;
  ScopePtr scope_, root_;
  std::string output_;
  std::string* out_ = &output_;
  std::vector<Value> captured_;  // the text that a filter without input takes
  std::vector<std::weak_ptr<Scope>> macro_scopes_;
  std::vector<std::shared_ptr<Object>> remembered_;
  int line_ = 1;
  int depth_ = 0;
  uint64_t steps_ = 0, built_ = 0;
};

// Counts one level of depth while it lives.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.depth_ > interpreter_.options_.limits.depth) {
      --interpreter_.depth_;
      raise_limit("nested deeper than {} levels", interpreter_.options_.limits.depth);
    }
  }
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace braid::jinja
