// Callable and stateful objects of templates: functions, namespaces, cyclers, joiners, and the global names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/value.h"

namespace braid::jinja {

using FunctionBody = std::function<Value(Interpreter&, const Arguments&)>;

Value make_function(std::string name, FunctionBody body);

// Holds attributes that {% set ns.name = ... %} changes, also from inside loops.
class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes) : attributes_(std::move(attributes)) {}
  std::string_view type() const override { return "Namespace"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) override;
  void set(const Value& name, Value value) { attributes_.set(name, std::move(value)); }
  void forget() override { attributes_ = {}; }

 private:
  Dict attributes_;
  mutable bool printing_ = false;
};

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now; nothing for other names.
std::optional<Value> global_value(std::string_view name);

}  // namespace braid::jinja
