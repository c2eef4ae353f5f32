// Filters about lists, dicts and whatever can be walked over.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "text/template/arguments.h"
#include "text/template/builtins.h"
#include "text/template/compare.h"
#include "text/template/item_path.h"
#include "text/template/iterate.h"
#include "text/template/numbers.h"
#include "text/template/operators.h"
#include "text/template/printing.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

Value length(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "length"});
  const auto size = length_of(input);
  if (!size) raise("object of type '{}' has no len()", type_name(input));
  return Value::integer(*size);
}

Value first(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "first"});
  Iterator next = iterate(input);
  auto item = next();
  return item ? std::move(*item) : Value::undefined("No first item, sequence was empty.");
}

Value last(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "last"});
  Iterator next = iterate_backwards(input);
  auto item = next();
  return item ? std::move(*item) : Value::undefined("No last item, sequence was empty.");
}

Value to_list(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "list"});
  return Value::list(to_items(input));
}

Value reverse(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "reverse"});
  if (input.is<Text>()) return slice_of(input, {Value(), Value(), Value::integer(-1)});
  if (input.is<std::shared_ptr<Generator>>()) {
    std::vector<Value> items = to_items(input);
    std::reverse(items.begin(), items.end());
    return Value::list(std::move(items));
  }
  if (!iterable(input)) raise("argument must be iterable");
  return Value::generator(iterate_backwards(input), extent_of(input), "list_reverseiterator");
}

Value join(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "join", .parameters = {"d", "attribute"}});
  const std::string separator = bound.given(0) ? to_text(bound.value(0)) : "";
  const ItemPath path(bound.value(1));
  std::string out;
  bool begun = false;
  Iterator next = iterate(input);
  while (auto item = next()) {
    const std::string piece = to_text(path.of(*item));
    check_text_size(out.size() + separator.size() + piece.size());
    if (begun) out += separator;
    out += piece;
    begun = true;
  }
  return Value::text(std::move(out));
}

Value pairs(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "items"});
  const auto* dict = input.as<DictRef>();
  if (!dict && !input.is_undefined()) {
    // As a generator, this fails when it is walked over.
    return Value::generator([]() -> std::optional<Value> { raise("Can only get item pairs from a mapping."); }, {});
  }
  if (!dict) return Value::generator([]() -> std::optional<Value> { return std::nullopt; }, {});
  return Value::generator(iterate(Value(Value::Data(View{*dict, ViewKind::Items}))), extent_of(input));
}

Value dict_sort(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "dictsort", .parameters = {"case_sensitive", "by", "reverse"}});
  const Value by = bound.given(1) ? bound.value(1) : Value::text("key");
  const std::string what = to_text(by);
  if (what != "key" && what != "value") raise("You can only sort by either \"key\" or \"value\"");
  const Dict* dict = input.as_dict();
  if (input.is_undefined()) raise_undefined(input);
  if (!dict) raise("dictsort needs a mapping, not '{}'", type_name(input));
  std::vector<Value> keys, sorted;
  for (const auto& [key, value] : dict->entries()) {
    const Value& wanted = what == "key" ? key : value;
    keys.push_back(bound.flag(0, false) ? wanted : without_case(wanted));
  }
  for (const size_t at : sorted_order(keys, bound.flag(2, false))) {
    sorted.push_back(Value::tuple({dict->entries()[at].first, dict->entries()[at].second}));
  }
  return Value::list(std::move(sorted));
}

Value sort(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "sort", .parameters = {"reverse", "case_sensitive", "attribute"}});
  const bool case_sensitive = bound.flag(1, false);
  std::vector<ItemPath> paths;
  const Value attribute = bound.value(2);
  if (attribute.is<Text>()) {
    for (std::string& part : split(attribute.as_text()->bytes(), ",", -1))
      paths.emplace_back(Value::text(std::move(part)));
  } else {
    paths.emplace_back(attribute);
  }
  const std::vector<Value> items = to_items(input);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const ItemPath& path : paths) key.push_back(case_sensitive ? path.of(item) : without_case(path.of(item)));
    keys.push_back(Value::list(std::move(key)));
  }
  std::vector<Value> sorted;
  for (const size_t at : sorted_order(keys, bound.flag(0, false))) sorted.push_back(items[at]);
  return Value::list(std::move(sorted));
}

Value group_by(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "groupby", .parameters = {"attribute", "default", "case_sensitive"}, .required = 1});
  ItemPath path(bound.value(0));
  if (!bound.value(1).is_none()) path.replace_undefined_by(bound.value(1));
  const std::vector<Value> items = to_items(input);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(bound.flag(2, false) ? path.of(item) : without_case(path.of(item)));
  std::vector<Value> groups, members;
  size_t group_start = 0;
  const auto order = sorted_order(keys, false);
  for (size_t i = 0; i < order.size(); ++i) {
    members.push_back(items[order[i]]);
    if (i + 1 < order.size() && equals(keys[order[i + 1]], keys[order[group_start]])) continue;
    auto group = std::make_shared<Sequence>();
    group->items = {path.of(members[0]), Value::list(std::exchange(members, {}))};
    for (const Value& part : group->items) group->extent.add(part);
    group->group = true;
    groups.push_back(Value(Value::Data(Tuple{std::move(group)})));
    group_start = i + 1;
  }
  return Value::list(std::move(groups));
}

Value unique(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "unique", .parameters = {"case_sensitive", "attribute"}});
  ItemPath path(bound.value(1));
  if (!bound.flag(0, false)) path.ignore_case();
  return Value::generator(
      [next = iterate(input), path, seen = Dict()]() mutable -> std::optional<Value> {
        while (auto item = next()) {
          const Value key = path.of(*item);
          if (seen.find(key)) continue;
          seen.set(key, Value());
          return item;
        }
        return std::nullopt;
      },
      extent_of(input));
}

template <bool largest>
Value extreme(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = largest ? "max" : "min", .parameters = {"case_sensitive", "attribute"}});
  ItemPath path(bound.value(1));
  if (!bound.flag(0, false)) path.ignore_case();
  std::optional<Value> best, best_key;
  Iterator next = iterate(input);
  while (auto item = next()) {
    Value key = path.of(*item);
    if (best && !(largest ? less(*best_key, key, ">") : less(key, *best_key, "<"))) continue;
    best = std::move(*item);
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

Value sum(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "sum", .parameters = {"attribute", "start"}});
  const ItemPath path(bound.value(0));
  Value total = bound.given(1) ? bound.value(1) : Value::integer(0);
  if (total.is<Text>()) raise("sum() can't sum strings [use ''.join(seq) instead]");
  Iterator next = iterate(input);
  while (auto item = next()) total = apply_arithmetic(Arithmetic::Add, total, path.of(*item));
  return total;
}

Value batch(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "batch", .parameters = {"linecount", "fill_with"}, .required = 1});
  const auto count = as_number(bound.value(0));
  if (!count) raise("linecount must be a number");
  const Value fill = bound.value(1);
  std::vector<Value> rows, row;
  for (Value& item : to_items(input)) {
    const Number size{false, static_cast<Integer>(row.size()), 0};
    if (compare_numbers(size, *count) == Order::Equal) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    const Integer wanted = fill.is_none() ? 0 : index_argument(bound.value(0), "linecount");
    if (wanted > static_cast<Integer>(kMaxValueNodes)) raise_limit("a row of more than {} values", kMaxValueNodes);
    while (static_cast<Integer>(row.size()) < wanted) row.push_back(fill);
    rows.push_back(Value::list(std::move(row)));
  }
  const Value all = Value::list(std::move(rows));
  return Value::generator(iterate(all), extent_of(all));
}

Value slice(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "slice", .parameters = {"slices", "fill_with"}, .required = 1});
  const std::vector<Value> items = to_items(input);
  const int64_t slices = bound.integer(0, 1);
  if (slices == 0) raise("integer division or modulo by zero");
  if (slices > static_cast<int64_t>(kMaxValueNodes)) raise_limit("more than {} slices", kMaxValueNodes);
  std::vector<Value> columns;
  const auto length = static_cast<int64_t>(items.size());
  auto at = items.begin();
  for (int64_t i = 0; i < slices; ++i) {
    const bool longer = i < length % slices;
    const auto end = at + (length / slices + (longer ? 1 : 0));
    std::vector<Value> column(at, end);
    at = end;
    if (!bound.value(1).is_none() && !longer) column.push_back(bound.value(1));
    columns.push_back(Value::list(std::move(column)));
  }
  const Value all = Value::list(std::move(columns));
  return Value::generator(iterate(all), extent_of(all));
}

Value default_value(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "default", .parameters = {"default_value", "boolean"}});
  const bool missing = input.is_undefined() || (bound.flag(1, false) && !truthy(input));
  if (!missing) return input;
  return bound.given(0) ? bound.value(0) : Value::text("");
}

Value attribute(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "attr", .parameters = {"name"}, .required = 1});
  const Value name = bound.value(0);
  const Text* text = name.as_text();
  if (!text) raise("attribute name must be string, not '{}'", type_name(name));
  if (input.is_undefined()) raise_undefined(input);
  if (auto found = own_attribute(input, text->bytes())) return *found;
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(input), text->bytes()));
}

}  // namespace

Filter find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"length", length},      {"count", length},      {"first", first},
      {"last", last},          {"list", to_list},      {"reverse", reverse},
      {"join", join},          {"items", pairs},       {"dictsort", dict_sort},
      {"sort", sort},          {"groupby", group_by},  {"unique", unique},
      {"min", extreme<false>}, {"max", extreme<true>}, {"sum", sum},
      {"batch", batch},        {"slice", slice},       {"default", default_value},
      {"d", default_value},    {"attr", attribute},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace braid::jinja
