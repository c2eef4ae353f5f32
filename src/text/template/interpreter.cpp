// SPDX-License-Identifier: Apache-2.0
#include "text/template/interpreter.h"

#include "text/template/functions.h"
#include "text/template/macro.h"
#include "text/template/printing.h"

namespace braid::jinja {

const Value* Scope::find(int symbol) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == symbol) return &value;
    }
  }
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

Interpreter::~Interpreter() {
  for (const auto& weak : macro_scopes_) {
    if (const ScopePtr scope = weak.lock()) scope->variables.clear();
  }
  for (const auto& object : remembered_) object->forget();
}

void Interpreter::load_context(const Json& context) {
  globals_.reserve(program_.symbols.size());
  for (const std::string& name : program_.symbols) {
    if (const auto found = context.find(name); found != context.end()) {
      globals_.push_back(from_json(*found));
    } else if (auto global = global_value(name)) {
      globals_.push_back(std::move(*global));
    } else {
      globals_.push_back(Value::undefined(fmt::format("'{}' is undefined", name)));
    }
  }
  for (const std::vector<int>& names : program_.frames) {
    hidden_.emplace_back();
    for (const int symbol : names) {
      const auto at = static_cast<size_t>(symbol);
      if (globals_[at].is_undefined()) continue;
      hidden_.back().emplace_back(symbol, Value::undefined(fmt::format("'{}' is undefined", program_.symbols[at])));
    }
  }
}

ScopePtr Interpreter::new_scope(const ScopePtr& parent, int frame) const {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  scope->variables = hidden_[static_cast<size_t>(frame)];
  return scope;
}

std::string Interpreter::render(const Json& context) {
  if (!context.is_object()) raise("the context must be a JSON object");
  load_context(context);
  root_ = scope_ = new_scope(nullptr, 0);
  execute(program_.body);
  return std::move(output_);
}

void Interpreter::count_steps(uint64_t steps) {
  steps_ += steps;
  if (steps_ > options_.limits.steps) raise_limit("more than {} steps", options_.limits.steps);
}

void Interpreter::count_built(const Value& value) {
  if (const Text* text = value.as_text()) {
    built_ += text->bytes().size();
  } else if (const Sequence* sequence = value.as_sequence()) {
    built_ += sequence->items.size() * sizeof(Value);
    count_steps(sequence->items.size() / 8);
  }
  if (built_ > options_.limits.built_bytes) {
    raise_limit("strings and lists of more than {} MiB were built", options_.limits.built_bytes >> 20);
  }
}

std::tm Interpreter::now() const {
  if (options_.now) return options_.now();
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  return local;
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) raise_undefined(callee);
  const auto* object = callee.as<std::shared_ptr<Object>>();
  if (!object || !(*object)->callable()) raise("'{}' object is not callable", type_name(callee));
  const std::shared_ptr<Object> held = *object;
  return held->call(*this, std::move(arguments));
}

Value Interpreter::macro_value(const std::shared_ptr<const MacroDefinition>& definition) {
  return Value::object(std::make_shared<Macro>(definition, scope_));
}

Value Interpreter::call_macro(const MacroDefinition& macro, const ScopePtr& defined_in, Arguments arguments) {
  const Deeper deeper(*this);
  const auto scope = std::make_shared<Scope>();
  scope->parent = defined_in;
  bind_macro_arguments(macro, std::move(arguments), *scope);
  const auto& hidden = hidden_[static_cast<size_t>(macro.frame)];
  scope->variables.insert(scope->variables.end(), hidden.begin(), hidden.end());
  const ScopePtr before = std::exchange(scope_, scope);
  const size_t first_default = macro.parameters.size() - macro.defaults.size();
  try {
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [name, symbol] = macro.parameters[i];
      const bool given = scope->variables[i].first == symbol;
      if (given) continue;
      scope->variables[i] = {symbol, i >= first_default
                                         ? evaluate(*macro.defaults[i - first_default])
                                         : Value::undefined(fmt::format("parameter '{}' was not provided", name))};
    }
  } catch (...) {
    scope_ = before;
    throw;
  }
  scope_ = before;
  return Value::text(capture(macro.body, scope).first);
}

}  // namespace braid::jinja
