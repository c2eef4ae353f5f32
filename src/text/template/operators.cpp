// SPDX-License-Identifier: Apache-2.0
#include "text/template/operators.h"

#include <algorithm>

#include "text/template/iterate.h"
#include "text/template/methods.h"
#include "text/template/printing.h"
#include "text/template/python_format.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

[[noreturn]] void unsupported(Arithmetic operation, const Value& left, const Value& right) {
  if (left.is_undefined()) raise_undefined(left);
  if (right.is_undefined()) raise_undefined(right);
  raise("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(operation), type_name(left), type_name(right));
}

Value add_texts(const Text& left, const Text& right) {
  const bool markup = left.markup() || right.markup();
  const auto piece = [&](const Text& text) {
    return markup && !text.markup() ? escape_html(text.bytes()) : text.bytes();
  };
  check_text_size(left.bytes().size() + right.bytes().size());
  return Value::text(piece(left) + piece(right), markup);
}

std::optional<Value> add_sequences(const Value& left, const Value& right) {
  const bool lists = left.is<List>() && right.is<List>(), tuples = left.is<Tuple>() && right.is<Tuple>();
  if (!lists && !tuples) return std::nullopt;
  std::vector<Value> items = left.as_sequence()->items;
  const auto& more = right.as_sequence()->items;
  items.insert(items.end(), more.begin(), more.end());
  return lists ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

std::optional<Value> repeat_value(const Value& value, const Value& count) {
  const auto number = as_integer(count);
  if (!number) return std::nullopt;
  const auto times = static_cast<int64_t>(std::clamp<Integer>(*number, 0, INT64_MAX));
  if (const Text* text = value.as_text()) return Value::text(repeat(text->bytes(), times), text->markup());
  const Sequence* sequence = value.as_sequence();
  if (!sequence) return std::nullopt;
  std::vector<Value> items;
  if (!sequence->items.empty() && static_cast<uint64_t>(times) > kMaxValueNodes / sequence->items.size()) {
    raise_limit("a list would hold more than {} values", kMaxValueNodes);
  }
  for (int64_t i = 0; i < times && !sequence->items.empty(); ++i) {
    items.insert(items.end(), sequence->items.begin(), sequence->items.end());
  }
  return value.is<List>() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

std::optional<int64_t> bound(const Value& value) {
  if (value.is_none()) return std::nullopt;
  const auto number = as_integer(value);
  if (!number) raise("slice indices must be integers or None or have an __index__ method");
  return static_cast<int64_t>(std::clamp<Integer>(*number, INT64_MIN / 4, INT64_MAX / 4));
}

struct Slice {
  int64_t start, step, count;
};

// slice.indices() and the number of items it takes.
Slice resolve(const SliceBounds& bounds, int64_t length) {
  const int64_t step = bound(bounds.step).value_or(1);
  if (step == 0) raise("slice step cannot be zero");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  const auto place = [&](const Value& value, int64_t missing) {
    const auto given = bound(value);
    if (!given) return missing;
    return std::clamp(*given < 0 ? *given + length : *given, low, high);
  };
  const int64_t start = place(bounds.start, step > 0 ? 0 : length - 1);
  const int64_t stop = place(bounds.stop, step > 0 ? length : -1);
  return {start, step, Range{start, stop, step}.length()};
}

Value slice_text(const Text& text, const Slice& slice) {
  if (slice.count == 0) return Value::text("", text.markup());
  const auto start = static_cast<size_t>(slice.start), count = static_cast<size_t>(slice.count);
  if (slice.step == 1) {
    const size_t from = text.ascii() ? start : byte_offset(text.bytes(), start);
    const std::string_view rest = std::string_view(text.bytes()).substr(from);
    return Value::text(std::string(rest.substr(0, text.ascii() ? count : byte_offset(rest, count))), text.markup());
  }
  const std::vector<uint32_t> characters = to_characters(text.bytes());
  std::vector<uint32_t> taken;
  for (int64_t i = 0; i < slice.count; ++i)
    taken.push_back(characters[static_cast<size_t>(slice.start + i * slice.step)]);
  return Value::text(from_characters(taken), text.markup());
}

std::optional<size_t> place_of(const Value& key, int64_t length) {
  const auto number = as_integer(key);
  if (!number) return std::nullopt;
  const Integer at = *number < 0 ? *number + length : *number;
  if (at < 0 || at >= length) return std::nullopt;
  return static_cast<size_t>(at);
}

// value[key] where Python finds an item.
std::optional<Value> own_item(const Value& value, const Value& key) {
  if (const Dict* dict = value.as_dict()) {
    if (key.is<List>() || key.is<DictRef>()) return std::nullopt;
    const Value* found = dict->find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!value.is<Text>() && !value.as_sequence() && !value.is<Range>()) return std::nullopt;
  const auto at = place_of(key, *length_of(value));
  if (!at) return std::nullopt;
  if (const Sequence* sequence = value.as_sequence()) return sequence->items[*at];
  if (const auto* range = value.as<Range>()) return range_item(*range, static_cast<int64_t>(*at));
  const Text& text = *value.as_text();
  return slice_text(text, {static_cast<int64_t>(*at), 1, 1});
}

Value missing_item(const Value& value, const Value& key) {
  if (const Text* name = key.as_text()) {
    return Value::undefined(
        fmt::format("'{} object' has no attribute {}", type_name(value), repr_of_text(name->bytes())));
  }
  return Value::undefined(fmt::format("{} object has no element {}", type_name(value), repr(key)));
}

}  // namespace

Value apply_arithmetic(Arithmetic operation, const Value& left, const Value& right) {
  const Text* text = left.as_text();
  const Text* other_text = right.as_text();
  if (text && operation == Arithmetic::Modulo) return format_percent(*text, right);
  if (text && other_text && operation == Arithmetic::Add) return add_texts(*text, *other_text);
  const auto number = as_number(left), other = as_number(right);
  if (number && other) return compute(operation, *number, *other);
  std::optional<Value> result;
  if (operation == Arithmetic::Add) result = add_sequences(left, right);
  if (operation == Arithmetic::Multiply) {
    result = repeat_value(left, right);
    if (!result) result = repeat_value(right, left);
  }
  if (!result) unsupported(operation, left, right);
  return *result;
}

Value negate(const Value& value) {
  const auto number = as_number(value);
  if (number && number->real) return Value::real(-number->fraction);
  if (number) return compute(Arithmetic::Subtract, {false, 0, 0}, *number);
  if (value.is_undefined()) raise_undefined(value);
  raise("bad operand type for unary -: '{}'", type_name(value));
}

Value affirm(const Value& value) {
  const auto number = as_number(value);
  if (number) return number->real ? value : Value::integer(number->whole);
  if (value.is_undefined()) raise_undefined(value);
  raise("bad operand type for unary +: '{}'", type_name(value));
}

Value slice_of(const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) raise_undefined(value);
  const bool sliceable = value.is<Text>() || value.as_sequence() || value.is<Range>();
  if (!sliceable) raise("'{}' object cannot be sliced", type_name(value));
  const Slice slice = resolve(bounds, *length_of(value));
  if (const Text* text = value.as_text()) return slice_text(*text, slice);
  if (const auto* range = value.as<Range>()) {
    const int64_t start = range->start + slice.start * range->step, step = range->step * slice.step;
    return Value(Value::Data(Range{start, start + slice.count * step, step}));
  }
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(slice.count));
  const auto& all = value.as_sequence()->items;
  for (int64_t i = 0; i < slice.count; ++i) items.push_back(all[static_cast<size_t>(slice.start + i * slice.step)]);
  return value.is<List>() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return (*object)->attribute(name);
  if (const Sequence* sequence = value.as_sequence(); sequence && sequence->group) {
    if (name == "grouper") return sequence->items[0];
    if (name == "list") return sequence->items[1];
  }
  if (mutates(value, name)) {
    return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
  }
  return method_of(value, name);
}

Value attribute_of(const Value& value, const Text& name) {
  if (value.is_undefined()) raise_undefined(value);
  if (auto found = own_attribute(value, name.bytes())) return *found;
  if (const Dict* dict = value.as_dict()) {
    if (const Value* found = dict->find(std::string_view(name.bytes()))) return *found;
  }
  return missing_item(value, Value(Value::Data(name)));
}

Value item_of(const Value& value, const Value& key) {
  if (value.is_undefined()) raise_undefined(value);
  if (auto found = own_item(value, key)) return *found;
  if (const Text* name = key.as_text()) {
    if (auto found = own_attribute(value, name->bytes())) return *found;
  }
  return missing_item(value, key);
}

}  // namespace braid::jinja
