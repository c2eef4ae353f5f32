// SPDX-License-Identifier: Apache-2.0
#include "text/template/macro.h"

#include <algorithm>

#include "text/template/arguments.h"
#include "text/template/compare.h"
#include "text/template/functions.h"
#include "text/template/iterate.h"

namespace braid::jinja {
namespace {

std::optional<Value> take_named(Arguments& arguments, std::string_view name) {
  auto& named = arguments.named;
  const auto found = std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
  if (found == named.end()) return std::nullopt;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

}  // namespace

void bind_macro_arguments(const MacroDefinition& macro, Arguments arguments, Scope& scope) {
  const size_t count = macro.parameters.size();
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, symbol] = macro.parameters[i];
    std::optional<Value> value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else {
      value = take_named(arguments, name);
    }
    scope.variables.emplace_back(value ? symbol : -1, value ? std::move(*value) : Value());
  }
  if (macro.uses_caller) {
    auto caller = take_named(arguments, "caller");
    const bool absent = !caller || caller->is_none();
    scope.variables.emplace_back(macro.caller_symbol,
                                 absent ? Value::undefined("No caller defined") : std::move(*caller));
  }
  if (macro.uses_kwargs) {
    Dict named;
    for (auto& [name, value] : arguments.named) named.set(Value::text(name), std::move(value));
    scope.variables.emplace_back(macro.kwargs_symbol, make_dict(std::move(named)));
  } else if (!arguments.named.empty()) {
    raise("macro '{}' takes no keyword argument '{}'", macro.name, arguments.named[0].first);
  }
  const size_t given = arguments.positional.size();
  if (macro.uses_varargs) {
    const size_t first = std::min(count, given);
    scope.variables.emplace_back(
        macro.varargs_symbol,
        Value::tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(first), arguments.positional.end()}));
  } else if (given > count) {
    raise("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
}

std::optional<Value> Macro::attribute(std::string_view name) {
  if (name == "name") return Value::text(definition_->name);
  if (name == "caller") return Value::boolean(definition_->uses_caller);
  if (name == "catch_kwargs") return Value::boolean(definition_->uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(definition_->uses_varargs);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const auto& [parameter, symbol] : definition_->parameters) names.push_back(Value::text(parameter));
  return Value::tuple(std::move(names));
}

bool Loop::advance() {
  std::optional<Value> item;
  if (ahead_) {
    item = std::exchange(ahead_, std::nullopt);
  } else if (walked_) {
    if (!rest_.empty()) {
      item = std::move(rest_.front());
      rest_.pop_front();
    }
  } else {
    item = source_.next();
  }
  if (!item) return false;
  ++index_;
  before_ = std::move(current_);
  current_ = std::move(*item);
  return true;
}

const std::optional<Value>& Loop::ahead() {
  if (ahead_) return ahead_;
  if (!walked_) {
    ahead_ = source_.next();
  } else if (!rest_.empty()) {
    ahead_ = std::move(rest_.front());
    rest_.pop_front();
  }
  return ahead_;
}

int64_t Loop::length() {
  if (!source_.length) {
    while (auto item = source_.next()) {
      rest_.push_back(std::move(*item));
      if (rest_.size() > kMaxValueNodes) raise_limit("a loop over more than {} values", kMaxValueNodes);
    }
    walked_ = true;
    source_.length = static_cast<int64_t>(rest_.size()) + index_ + 1 + (ahead_ ? 1 : 0);
  }
  return *source_.length;
}

std::optional<Value> Loop::position(std::string_view name) {
  if (name == "index") return Value::integer(index_ + 1);
  if (name == "index0") return Value::integer(index_);
  if (name == "revindex") return Value::integer(length() - index_);
  if (name == "revindex0") return Value::integer(length() - index_ - 1);
  if (name == "length") return Value::integer(length());
  if (name == "first") return Value::boolean(index_ == 0);
  if (name == "last") return Value::boolean(!ahead());
  if (name == "depth") return Value::integer(source_.depth + 1);
  if (name == "depth0") return Value::integer(source_.depth);
  return std::nullopt;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (auto found = position(name)) return found;
  if (name == "previtem") return index_ == 0 ? Value::undefined("there is no previous item") : before_;
  if (name == "nextitem") return ahead() ? *ahead_ : Value::undefined("there is no next item");
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  if (name == "cycle") {
    return make_function("cycle", [self](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty() || !arguments.named.empty()) raise("no items for cycling given");
      return arguments.positional[static_cast<size_t>(self->index_) % arguments.positional.size()];
    });
  }
  if (name != "changed") return std::nullopt;
  return make_function("changed", [self](Interpreter& interpreter, const Arguments& arguments) {
    if (!arguments.named.empty()) raise("changed() takes no keyword arguments");
    if (!std::exchange(self->remembered_, true)) interpreter.remember(self);
    Value now = Value::tuple(arguments.positional);
    const bool changed = !self->last_changed_ || !equals(*self->last_changed_, now);
    if (changed) self->last_changed_ = std::move(now);
    return Value::boolean(changed);
  });
}

Value Loop::call(Interpreter& interpreter, Arguments arguments) {
  const Bound bound(arguments, {.function = "loop", .parameters = {"iterable"}, .required = 1});
  if (!source_.recurse) raise("The loop must have the 'recursive' marker to be called recursively.");
  return source_.recurse(interpreter, bound.value(0));
}

void Loop::forget() {
  last_changed_.reset();
  before_ = current_ = Value();
  ahead_.reset();
  rest_.clear();
  source_ = {};
}

}  // namespace braid::jinja
