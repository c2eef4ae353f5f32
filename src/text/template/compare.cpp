// SPDX-License-Identifier: Apache-2.0
#include "text/template/compare.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "text/template/iterate.h"
#include "text/template/numbers.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

constexpr size_t kHashStep = 1000003;

bool equal_numbers(const Number& left, const Number& right) {
  if (left.real || right.real) return compare_numbers(left, right) == Order::Equal;
  return left.whole == right.whole;
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), equals);
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = right.find(entry.first);
    return other && equals(entry.second, *other);
  });
}

bool equal_ranges(const Range& left, const Range& right) {
  const int64_t length = left.length();
  if (length != right.length()) return false;
  return length == 0 || (left.start == right.start && (length == 1 || left.step == right.step));
}

[[noreturn]] void no_order(const Value& left, const Value& right, std::string_view operation) {
  if (left.is_undefined()) raise_undefined(left);
  if (right.is_undefined()) raise_undefined(right);
  raise("'{}' not supported between instances of '{}' and '{}'", operation, type_name(left), type_name(right));
}

// Strings and sequences: below, equal or above; numbers may be unordered (nan).
Order order(const Value& left, const Value& right, std::string_view operation) {
  const auto left_number = as_number(left), right_number = as_number(right);
  if (left_number && right_number) return compare_numbers(*left_number, *right_number);
  if (left.is<Text>() && right.is<Text>()) {
    const int sign = left.as_text()->bytes().compare(right.as_text()->bytes());  // byte order is character order
    return sign < 0 ? Order::Below : sign > 0 ? Order::Above : Order::Equal;
  }
  const bool lists = left.is<List>() && right.is<List>(), tuples = left.is<Tuple>() && right.is<Tuple>();
  if (!lists && !tuples) no_order(left, right, operation);
  const auto &a = left.as_sequence()->items, &b = right.as_sequence()->items;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equals(a[i], b[i])) return order(a[i], b[i], operation);
  }
  return a.size() < b.size() ? Order::Below : a.size() > b.size() ? Order::Above : Order::Equal;
}

size_t hash_of_number(const Number& number) {
  if (number.real && (std::floor(number.fraction) != number.fraction || std::abs(number.fraction) > 1e18)) {
    return std::hash<double>{}(number.fraction);
  }
  const Integer whole = number.real ? static_cast<Integer>(number.fraction) : number.whole;
  return std::hash<int64_t>{}(static_cast<int64_t>(whole)) * 0x9E3779B97F4A7C15ull;
}

}  // namespace

bool equals(const Value& left, const Value& right) {
  if (const Text* text = left.as_text()) {
    const Text* other = right.as_text();
    return other && (text->identity() == other->identity() || text->bytes() == other->bytes());
  }
  const auto left_number = as_number(left);
  if (left_number) {
    const auto right_number = as_number(right);
    return right_number && equal_numbers(*left_number, *right_number);
  }
  if (left.data().index() != right.data().index()) return false;
  if (const Sequence* sequence = left.as_sequence()) {
    const Sequence* other = right.as_sequence();
    return sequence == other || equal_items(sequence->items, other->items);
  }
  if (const Dict* dict = left.as_dict()) return dict == right.as_dict() || equal_dicts(*dict, *right.as_dict());
  if (const auto* range = left.as<Range>()) return equal_ranges(*range, *right.as<Range>());
  if (const auto* view = left.as<View>()) {
    return view->kind == right.as<View>()->kind && view->kind != ViewKind::Values &&
           equal_dicts(*view->dict, *right.as<View>()->dict);
  }
  return same(left, right);
}

bool less(const Value& left, const Value& right, std::string_view operation) {
  return order(left, right, operation) == Order::Below;
}

bool less_or_equal(const Value& left, const Value& right, std::string_view operation) {
  const Order found = order(left, right, operation);
  return found == Order::Below || found == Order::Equal;
}

bool contains(const Value& container, const Value& item) {
  if (const Text* text = container.as_text()) {
    const Text* part = item.as_text();
    if (!part) raise("'in <string>' requires string as left operand, not {}", type_name(item));
    return find_bytes(text->bytes(), part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(item) != nullptr;
  if (const auto* view = container.as<View>(); view && view->kind == ViewKind::Keys) return view->dict->find(item);
  if (const auto* object = container.as<std::shared_ptr<Object>>(); object) {
    raise("argument of type '{}' is not iterable", (*object)->type());
  }
  if (const Sequence* sequence = container.as_sequence()) {
    const auto& items = sequence->items;
    return std::any_of(items.begin(), items.end(), [&](const Value& value) { return equals(value, item); });
  }
  Iterator next = iterate(container);
  while (auto value = next()) {
    if (equals(*value, item)) return true;
  }
  return false;
}

bool same(const Value& left, const Value& right) {
  if (left.data().index() != right.data().index()) return false;
  struct Identity {
    const Value& other;
    bool operator()(const Undefined&) const { return true; }
    bool operator()(const None&) const { return true; }
    bool operator()(bool value) const { return value == *other.as<bool>(); }
    bool operator()(Integer value) const { return value == *other.as<Integer>(); }
    bool operator()(double value) const { return value == *other.as<double>(); }
    bool operator()(const Text& text) const { return text.bytes() == other.as_text()->bytes(); }
    bool operator()(const List& list) const { return list == *other.as<List>(); }
    bool operator()(const Tuple& tuple) const { return tuple.sequence == other.as<Tuple>()->sequence; }
    bool operator()(const DictRef& dict) const { return dict == *other.as<DictRef>(); }
    bool operator()(const Range&) const { return false; }
    bool operator()(const View&) const { return false; }
    bool operator()(const std::shared_ptr<Generator>& value) const {
      return value == *other.as<std::shared_ptr<Generator>>();
    }
    bool operator()(const std::shared_ptr<Object>& value) const {
      return value == *other.as<std::shared_ptr<Object>>();
    }
  };
  return std::visit(Identity{right}, left.data());
}

std::vector<size_t> sorted_order(const std::vector<Value>& keys, bool descending) {
  std::vector<size_t> order_of(keys.size());
  std::iota(order_of.begin(), order_of.end(), size_t{0});
  std::stable_sort(order_of.begin(), order_of.end(), [&](size_t a, size_t b) {
    return descending ? less(keys[b], keys[a], "<") : less(keys[a], keys[b], "<");
  });
  return order_of;
}

size_t hash_of_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

size_t hash_of(const Value& value) {
  if (const Text* text = value.as_text()) return hash_of_text(text->bytes());
  if (const auto number = as_number(value)) return hash_of_number(*number);
  if (const auto* tuple = value.as<Tuple>()) {
    size_t hash = tuple->sequence->items.size();
    for (const Value& item : tuple->sequence->items) hash = hash * kHashStep ^ hash_of(item);
    return hash;
  }
  if (value.is<List>() || value.is<DictRef>() || value.is<View>()) raise("unhashable type: '{}'", type_name(value));
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return std::hash<const void*>{}(object->get());
  if (const auto* made = value.as<std::shared_ptr<Generator>>()) return std::hash<const void*>{}(made->get());
  return value.data().index();
}

}  // namespace braid::jinja
