// SPDX-License-Identifier: Apache-2.0
#include "text/template/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/template/arguments.h"
#include "text/template/compare.h"
#include "text/template/functions.h"
#include "text/template/iterate.h"

namespace braid::jinja {
namespace {

template <ViewKind kind>
Value view_of(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound(arguments, {.function = "view"});
  return Value(Value::Data(View{*self.as<DictRef>(), kind}));
}

Value get_entry(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "get", .parameters = {"key", "default"}, .required = 1, .unnamed = 2});
  const Value* found = self.as_dict()->find(bound.value(0));
  return found ? *found : bound.value(1);
}

Value itself(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound(arguments, {.function = "copy"});
  if (const auto* list = self.as<List>()) return Value::list((*list)->items);
  return make_dict(*self.as_dict());
}

Value count_items(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "count", .parameters = {"value"}, .required = 1, .unnamed = 1});
  const std::vector<Value> items = to_items(self);
  const Value wanted = bound.value(0);
  return Value::integer(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equals(item, wanted); }));
}

Value index_of_item(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "index", .parameters = {"value", "start", "stop"}, .required = 1, .unnamed = 3});
  const std::vector<Value> items = to_items(self);
  const auto size = static_cast<int64_t>(items.size());
  const auto place = [&](size_t at, int64_t missing) {
    const int64_t given = bound.integer(at, missing);
    return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const int64_t stop = place(2, size);
  for (int64_t i = place(1, 0); i < stop; ++i) {
    if (equals(items[static_cast<size_t>(i)], bound.value(0))) return Value::integer(i);
  }
  raise("value is not in {}", type_name(self));
}

Value is_whole(Interpreter&, const Value& self, const Arguments& arguments) {
  Bound(arguments, {.function = "is_integer"});
  const double number = *self.as<double>();
  return Value::boolean(std::isfinite(number) && std::floor(number) == number);
}

template <size_t n>
bool among(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Method find_method(const Value& value, std::string_view name) {
  if (value.is<Text>()) return find_text_method(name);
  if (value.is<DictRef>()) {
    if (name == "items") return view_of<ViewKind::Items>;
    if (name == "keys") return view_of<ViewKind::Keys>;
    if (name == "values") return view_of<ViewKind::Values>;
    if (name == "get") return get_entry;
    if (name == "copy") return itself;
  }
  if (value.is<List>() && name == "copy") return itself;
  if (value.is<List>() || value.is<Tuple>() || value.is<Range>()) {
    if (name == "count") return count_items;
    if (name == "index") return index_of_item;
  }
  if (value.is<double>() && name == "is_integer") return is_whole;
  return nullptr;
}

std::optional<Value> method_of(const Value& value, std::string_view name) {
  const Method method = find_method(value, name);
  if (!method) return std::nullopt;
  return make_function(std::string(name), [method, value](Interpreter& interpreter, const Arguments& arguments) {
    return method(interpreter, value, arguments);
  });
}

bool mutates(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kList = {"append", "clear",  "extend",  "insert",
                                                            "pop",    "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::array<std::string_view, 8> kInternal = {"__class__",        "__dict__", "__doc__", "__init__",
                                                                "__getattribute__", "__len__",  "__eq__",  "__str__"};
  return (value.is<List>() && among(kList, name)) || (value.is<DictRef>() && among(kDict, name)) ||
         among(kInternal, name);
}

}  // namespace braid::jinja
