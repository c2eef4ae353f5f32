// Expressions of the interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/template/compare.h"
#include "text/template/interpreter.h"
#include "text/template/iterate.h"
#include "text/template/methods.h"
#include "text/template/operators.h"
#include "text/template/printing.h"

namespace braid::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Deeper deeper(*this);
  count_steps(1);
  Value result = std::visit(
      [&](const auto& node) {
        line_ = expression.line;
        return visit(node);
      },
      expression.node);
  line_ = expression.line;
  return result;
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const auto& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments values;
  values.positional = evaluate_all(arguments.positional);
  if (arguments.spread) {
    for (Value& value : to_items(evaluate(*arguments.spread))) values.positional.push_back(std::move(value));
  }
  for (const auto& [name, expression] : arguments.named) values.named.emplace_back(name, evaluate(*expression));
  if (!arguments.named_spread) return values;
  const Value spread = evaluate(*arguments.named_spread);
  const Dict* dict = spread.as_dict();
  if (!dict) raise("argument after ** must be a mapping, not {}", type_name(spread));
  for (const auto& [key, value] : dict->entries()) {
    const Text* name = key.as_text();
    if (!name) raise("keywords must be strings");
    const auto& named = values.named;
    const bool twice =
        std::any_of(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name->bytes(); });
    if (twice) raise("got multiple values for keyword argument '{}'", name->bytes());
    values.named.emplace_back(name->bytes(), value);
  }
  return values;
}

Value Interpreter::visit(const Constant& node) { return node.value; }

Value Interpreter::visit(const Name& node) {
  const Value* found = scope_->find(node.symbol);
  return found ? *found : globals_[static_cast<size_t>(node.symbol)];
}

Value Interpreter::visit(const TupleDisplay& node) { return Value::tuple(evaluate_all(node.items)); }

Value Interpreter::visit(const ListDisplay& node) { return Value::list(evaluate_all(node.items)); }

Value Interpreter::visit(const DictDisplay& node) {
  Dict dict;
  for (const auto& [key, value] : node.entries) {
    Value name = evaluate(*key);
    dict.set(std::move(name), evaluate(*value));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::visit(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  if (node.operation == '!') return Value::boolean(!truthy(operand));
  return node.operation == '-' ? negate(operand) : affirm(operand);
}

Value Interpreter::visit(const Binary& node) {
  const int line = line_;
  const Value left = evaluate(*node.left);
  const Value right = evaluate(*node.right);
  line_ = line;
  Value result = apply_arithmetic(node.operation, left, right);
  count_built(result);
  return result;
}

Value Interpreter::visit(const Logical& node) {
  Value left = evaluate(*node.left);
  return truthy(left) == node.is_and ? evaluate(*node.right) : left;
}

bool Interpreter::compare(Comparator comparator, const Value& left, const Value& right) {
  count_steps(std::min(extent_of(left).nodes, extent_of(right).nodes));
  switch (comparator) {
    case Comparator::Equal:
      return equals(left, right);
    case Comparator::NotEqual:
      return !equals(left, right);
    case Comparator::Less:
      return less(left, right, "<");
    case Comparator::LessEqual:
      return less_or_equal(left, right, "<=");
    case Comparator::Greater:
      return less(right, left, ">");
    case Comparator::GreaterEqual:
      return less_or_equal(right, left, ">=");
    default:
      count_steps(static_cast<uint64_t>(length_of(right).value_or(0)) / 64);
      return contains(right, left) == (comparator == Comparator::In);
  }
}

Value Interpreter::visit(const Comparison& node) {
  const int line = line_;
  Value left = evaluate(*node.first);
  for (const auto& [comparator, expression] : node.rest) {
    Value right = evaluate(*expression);
    line_ = line;
    if (!compare(comparator, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::visit(const Concatenation& node) {
  std::string text;
  for (const auto& part : node.parts) {
    const Value value = evaluate(*part);
    const Text* piece = value.as_text();
    const std::string printed = piece ? std::string() : to_text(value);
    const std::string& bytes = piece ? piece->bytes() : printed;
    check_text_size(text.size() + bytes.size());
    text += bytes;
  }
  Value result = Value::text(std::move(text));
  count_built(result);
  return result;
}

Value Interpreter::visit(const Conditional& node) {
  if (truthy(evaluate(*node.test))) return evaluate(*node.yes);
  if (node.no) return evaluate(*node.no);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::visit(const AttributeAccess& node) {
  const int line = line_;
  const Value object = evaluate(*node.object);
  line_ = line;
  return attribute_of(object, node.name);
}

Value Interpreter::visit(const ItemAccess& node) {
  const int line = line_;
  const Value object = evaluate(*node.object);
  const Value key = evaluate(*node.key);
  line_ = line;
  return item_of(object, key);
}

Value Interpreter::visit(const SliceAccess& node) {
  const int line = line_;
  const auto bound = [&](const ExpressionPtr& expression) { return expression ? evaluate(*expression) : Value(); };
  const Value object = evaluate(*node.object);
  SliceBounds bounds;
  bounds.start = bound(node.start);
  bounds.stop = bound(node.stop);
  bounds.step = bound(node.step);
  line_ = line;
  Value result = slice_of(object, bounds);
  count_built(result);
  return result;
}

Value Interpreter::visit(const Call& node) { return evaluate_call(node, nullptr); }

// A call whose callee is a method of plain data goes there directly; `caller` is the body of a call block.
Value Interpreter::evaluate_call(const Call& node, const Value* caller) {
  const int line = line_;
  const auto* access = std::get_if<AttributeAccess>(&node.callee->node);
  const Value target = evaluate(access ? *access->object : *node.callee);
  const Method method = access ? find_method(target, access->name.bytes()) : nullptr;
  const Value callee = access && !method ? attribute_of(target, access->name) : target;
  Arguments arguments = evaluate_arguments(node.arguments);
  if (caller) arguments.named.emplace_back("caller", *caller);
  line_ = line;
  Value result = method ? method(*this, target, arguments) : call(callee, std::move(arguments));
  count_built(result);
  return result;
}

Value Interpreter::visit(const FilterUse& node) {
  const int line = line_;
  const Value input = node.input ? evaluate(*node.input) : captured_.back();
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = line;
  if (!node.filter) raise("no filter named '{}'", node.name);
  count_steps(static_cast<uint64_t>(length_of(input).value_or(0)) / 64);
  Value result = node.filter(*this, input, arguments);
  count_built(result);
  return result;
}

Value Interpreter::visit(const TestUse& node) {
  const int line = line_;
  const Value input = evaluate(*node.input);
  const Arguments arguments = evaluate_arguments(node.arguments);
  line_ = line;
  if (!node.test) raise("no test named '{}'", node.name);
  return Value::boolean(node.test(input, arguments));
}

}  // namespace braid::jinja
