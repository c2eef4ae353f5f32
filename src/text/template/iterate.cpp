// SPDX-License-Identifier: Apache-2.0
#include "text/template/iterate.h"

#include <algorithm>

#include "base/utf8.h"

namespace braid::jinja {
namespace {

// Walks over `length` things that `at(i)` gives, forwards or backwards.
template <typename At>
Iterator indexed(int64_t length, bool backwards, At at) {
  return [=, i = int64_t{0}]() mutable -> std::optional<Value> {
    if (i >= length) return std::nullopt;
    const int64_t index = backwards ? length - 1 - i : i;
    ++i;
    return at(index);
  };
}

Iterator characters(const Text& text) {
  return [text, at = size_t{0}]() mutable -> std::optional<Value> {
    if (at >= text.bytes().size()) return std::nullopt;
    const size_t bytes = decode_utf8(text.bytes(), at).bytes;
    at += bytes;
    return Value::text(text.bytes().substr(at - bytes, bytes));
  };
}

std::optional<Iterator> sized_iterator(const Value& value, bool backwards) {
  const int64_t length = length_of(value).value_or(0);
  if (value.is_undefined()) return indexed(0, false, [](int64_t) { return Value(); });
  if (const auto* list = value.as<List>()) {
    return indexed(length, backwards, [held = *list](int64_t i) { return held->items[static_cast<size_t>(i)]; });
  }
  if (const auto* tuple = value.as<Tuple>()) {
    return indexed(length, backwards,
                   [held = tuple->sequence](int64_t i) { return held->items[static_cast<size_t>(i)]; });
  }
  if (const auto* dict = value.as<DictRef>()) {
    return indexed(length, backwards,
                   [held = *dict](int64_t i) { return held->entries()[static_cast<size_t>(i)].first; });
  }
  if (const auto* view = value.as<View>()) {
    return indexed(length, backwards,
                   [held = *view](int64_t i) { return view_item(held, held.dict->entries()[static_cast<size_t>(i)]); });
  }
  if (const auto* range = value.as<Range>()) {
    return indexed(length, backwards, [held = *range](int64_t i) { return range_item(held, i); });
  }
  return std::nullopt;
}

}  // namespace

Value view_item(const View& view, const Dict::Entry& entry) {
  if (view.kind == ViewKind::Keys) return entry.first;
  if (view.kind == ViewKind::Values) return entry.second;
  return Value::tuple({entry.first, entry.second});
}

Value range_item(const Range& range, int64_t index) { return Value::integer(range.start + index * range.step); }

bool iterable(const Value& value) { return length_of(value).has_value() || value.is<std::shared_ptr<Generator>>(); }

Iterator iterate(const Value& value) {
  if (const Text* text = value.as_text()) return characters(*text);
  if (auto found = sized_iterator(value, false)) return *found;
  if (const auto* generator = value.as<std::shared_ptr<Generator>>()) {
    return [held = *generator] { return held->next(); };
  }
  raise("'{}' object is not iterable", type_name(value));
}

Iterator iterate_backwards(const Value& value) {
  if (const Text* text = value.as_text()) {
    std::vector<Value> items = to_items(value);
    return indexed(static_cast<int64_t>(text->length()), true,
                   [held = std::move(items)](int64_t i) { return held[static_cast<size_t>(i)]; });
  }
  if (auto found = sized_iterator(value, true)) return *found;
  raise("'{}' object is not reversible", type_name(value));
}

std::vector<Value> to_items(const Value& value) {
  if (const Sequence* sequence = value.as_sequence()) return sequence->items;
  std::vector<Value> items;
  Iterator next = iterate(value);
  while (auto item = next()) {
    items.push_back(std::move(*item));
    if (items.size() > kMaxValueNodes) raise_limit("a list would hold more than {} values", kMaxValueNodes);
  }
  return items;
}

}  // namespace braid::jinja
