// Statements of the interpreter.
// SPDX-License-Identifier: Apache-2.0
#include "text/template/functions.h"
#include "text/template/interpreter.h"
#include "text/template/iterate.h"
#include "text/template/macro.h"
#include "text/template/printing.h"

namespace braid::jinja {
namespace {

// Enters a scope while it lives.
class Inside {
 public:
  Inside(ScopePtr& current, ScopePtr scope) : current_(current), before_(std::exchange(current, std::move(scope))) {}
  ~Inside() { current_ = std::move(before_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ScopePtr& current_;
  ScopePtr before_;
};

// Sends output elsewhere while it lives.
class Redirected {
 public:
  Redirected(std::string*& current, std::string* target) : current_(current), before_(std::exchange(current, target)) {}
  ~Redirected() { current_ = before_; }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  std::string*& current_;
  std::string* before_;
};

}  // namespace

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Statement& statement : body) {
    const Flow flow = execute(statement);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Deeper deeper(*this);
  count_steps(1);
  line_ = statement.line;
  return std::visit([&](const auto& node) { return visit(node); }, statement.node);
}

void Interpreter::emit(std::string_view text) {
  if (out_->size() + text.size() > options_.limits.output_bytes) {
    raise_limit("output of more than {} bytes", options_.limits.output_bytes);
  }
  out_->append(text);
}

// What a block gives must be a string already.
void Interpreter::emit_text(const Value& value) {
  const Text* text = value.as_text();
  if (!text) raise("expected str instance, {} found", type_name(value));
  emit(text->bytes());
}

Interpreter::Flow Interpreter::visit(const Data& node) {
  emit(node.text);
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const Output& node) {
  const Value value = evaluate(*node.value);
  if (const Text* text = value.as_text()) {
    emit(text->bytes());
  } else {
    emit(to_text(value));
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (truthy(evaluate(*test))) return execute(body);
  }
  return execute(node.otherwise);
}

Interpreter::Flow Interpreter::visit(const For& node) {
  const Value iterable = evaluate(*node.iterable);
  return run_loop(node, iterable, scope_, 0);
}

// The items that the loop's condition lets through, tested one by one as the loop asks for them, and put together again
// from the loop's targets.
Iterator Interpreter::selected(const For& node, Iterator all, const ScopePtr& outer) {
  if (!node.condition) return all;
  return [this, &node, all = std::move(all), outer]() -> std::optional<Value> {
    while (auto item = all()) {
      auto scope = std::make_shared<Scope>();
      scope->parent = outer;
      const Inside inside(scope_, std::move(scope));
      assign(node.target, *item);
      if (truthy(evaluate(*node.condition))) return assigned(node.target);
    }
    return std::nullopt;
  };
}

std::shared_ptr<Loop> Interpreter::make_loop(const For& node, const Value& iterable, const ScopePtr& outer, int depth) {
  Loop::Source source{.next = selected(node, iterate(iterable), outer),
                      .length = node.condition ? std::nullopt : length_of(iterable),
                      .depth = depth};
  if (node.recursive) {
    source.recurse = [&node, outer, depth](Interpreter& interpreter, const Value& items) {
      std::string text;
      const Redirected redirected(interpreter.out_, &text);
      const Deeper deeper(interpreter);
      interpreter.run_loop(node, items, outer, depth + 1);
      return Value::text(std::move(text));
    };
  }
  return std::make_shared<Loop>(std::move(source));
}

Interpreter::Flow Interpreter::run_iteration(const For& node, const Value& item, const Value* loop) {
  if (loop) scope_->variables.emplace_back(program_.loop_symbol, *loop);
  assign(node.target, item);
  return execute(node.body);
}

Interpreter::Flow Interpreter::run_loop(const For& node, const Value& iterable, const ScopePtr& outer, int depth) {
  // As in Jinja, an iteration that break or continue cuts short does not count for the else branch.
  bool any = false;
  const auto step = [&](const Value& item, const Value* loop) {
    count_steps(1);
    const Inside inside(scope_, new_scope(outer, node.body_frame));
    const Flow flow = run_iteration(node, item, loop);
    any |= flow == Flow::Next;
    return flow == Flow::Break;
  };
  if (node.uses_loop) {
    const std::shared_ptr<Loop> loop = make_loop(node, iterable, outer, depth);
    const Value value = Value::object(loop);
    while (loop->advance() && !step(loop->current(), &value)) {
    }
  } else {
    const Iterator next = selected(node, iterate(iterable), outer);
    for (auto item = next(); item && !step(*item, nullptr); item = next()) {
    }
  }
  if (any) return Flow::Next;
  if (node.otherwise.empty()) return Flow::Next;
  const Inside inside(scope_, new_scope(outer, node.otherwise_frame));
  return execute(node.otherwise);
}

void Interpreter::assign(const Target& target, Value value) {
  if (target.attribute) {
    const Value* found = scope_->find(target.symbol);
    const Value& owner = found ? *found : globals_[static_cast<size_t>(target.symbol)];
    const auto* object = owner.as<std::shared_ptr<Object>>();
    auto* space = object ? dynamic_cast<Namespace*>(object->get()) : nullptr;
    if (!space) raise("cannot assign attribute on non-namespace object");
    space->set(*target.attribute, std::move(value));
    return;
  }
  if (!target.is_tuple) return scope_->set(target.symbol, std::move(value));
  const std::vector<Value> items = to_items(value);
  const size_t wanted = target.parts.size();
  if (items.size() != wanted) {
    raise("{} values to unpack (expected {}, got {})", items.size() < wanted ? "not enough" : "too many", wanted,
          items.size());
  }
  for (size_t i = 0; i < wanted; ++i) assign(target.parts[i], items[i]);
}

// The value of the names of a target, in this very scope.
Value Interpreter::assigned(const Target& target) const {
  if (!target.is_tuple) return *scope_->find(target.symbol);
  std::vector<Value> parts;
  for (const Target& part : target.parts) parts.push_back(assigned(part));
  return Value::tuple(std::move(parts));
}

Interpreter::Flow Interpreter::visit(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::Next;
}

std::pair<std::string, Interpreter::Flow> Interpreter::capture(const Body& body, ScopePtr scope) {
  std::string text;
  const Inside inside(scope_, std::move(scope));
  const Redirected redirected(out_, &text);
  const Flow flow = execute(body);
  return {std::move(text), flow};
}

Value Interpreter::apply_captured(const ExpressionPtr& filter, std::string text) {
  Value captured = Value::text(std::move(text));
  if (!filter) return captured;
  captured_.push_back(std::move(captured));
  Value result = evaluate(*filter);
  captured_.pop_back();
  return result;
}

Interpreter::Flow Interpreter::visit(const SetBlock& node) {
  const ScopePtr scope = new_scope(scope_, node.frame);
  auto [text, flow] = capture(node.body, scope);
  if (flow != Flow::Next) return flow;
  Value value;
  {
    const Inside inside(scope_, scope);
    value = apply_captured(node.filter, std::move(text));
  }
  assign(node.target, std::move(value));
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const MacroStatement& node) {
  scope_->set(node.definition->symbol, macro_value(node.definition));
  macro_scopes_.push_back(scope_);
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const CallBlock& node) {
  const Value caller = macro_value(node.caller);
  emit_text(evaluate_call(std::get<Call>(node.call->node), &caller));
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const FilterBlock& node) {
  const ScopePtr scope = new_scope(scope_, node.frame);
  auto [text, flow] = capture(node.body, scope);
  if (flow != Flow::Next) return flow;
  const Inside inside(scope_, scope);
  emit_text(apply_captured(node.filter, std::move(text)));
  return Flow::Next;
}

Interpreter::Flow Interpreter::visit(const With& node) {
  const ScopePtr scope = new_scope(scope_, node.frame);
  for (const auto& [target, expression] : node.bindings) {
    Value value = evaluate(*expression);
    const Inside inside(scope_, scope);
    assign(target, std::move(value));
  }
  const Inside inside(scope_, scope);
  return execute(node.body);
}

Interpreter::Flow Interpreter::visit(const Scoped& node) {
  const Inside inside(scope_, new_scope(node.from_root ? root_ : scope_, node.frame));
  return execute(node.body);
}

}  // namespace braid::jinja
