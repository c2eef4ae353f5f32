// The tests that follow `is`.
// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "text/template/arguments.h"
#include "text/template/builtins.h"
#include "text/template/compare.h"
#include "text/template/iterate.h"
#include "text/template/numbers.h"
#include "text/template/operators.h"
#include "text/template/printing.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

template <bool (*check)(const Value&)>
bool plain(const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "test"});
  return check(input);
}

template <bool (*check)(const Value&, const Value&)>
bool against(const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "test", .parameters = {"other"}, .required = 1});
  return check(input, bound.value(0));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_not_defined(const Value& value) { return value.is_undefined(); }
bool is_nothing(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is<bool>(); }
bool is_true(const Value& value) { return value.is<bool>() && *value.as<bool>(); }
bool is_false(const Value& value) { return value.is<bool>() && !*value.as<bool>(); }
bool is_integer(const Value& value) { return value.is<Integer>(); }
bool is_float(const Value& value) { return value.is<double>(); }
bool is_number(const Value& value) { return as_number(value).has_value(); }
bool is_string(const Value& value) { return value.is<Text>(); }
bool is_mapping(const Value& value) { return value.is<DictRef>(); }
bool is_sequence(const Value& value) { return length_of(value).has_value() && !value.is<View>(); }
bool is_escaped(const Value& value) { return value.is<Text>() && value.as_text()->markup(); }
bool is_lower_case(const Value& value) { return is_lower(to_text(value)); }
bool is_upper_case(const Value& value) { return is_upper(to_text(value)); }
bool is_filter(const Value& value) { return value.is<Text>() && find_filter(value.as_text()->bytes()); }
bool is_test(const Value& value) { return value.is<Text>() && find_test(value.as_text()->bytes()); }

bool is_callable(const Value& value) {
  const auto* object = value.as<std::shared_ptr<Object>>();
  return value.is_undefined() || (object && (*object)->callable());
}

bool is_iterable(const Value& value) {
  if (iterable(value)) return true;
  const auto* object = value.as<std::shared_ptr<Object>>();
  return object && (*object)->type() == "LoopContext";
}

bool has_rest(const Value& value, const Value& divisor, Integer wanted) {
  return equals(apply_arithmetic(Arithmetic::Modulo, value, divisor), Value::integer(wanted));
}

bool is_odd(const Value& value) { return has_rest(value, Value::integer(2), 1); }
bool is_even(const Value& value) { return has_rest(value, Value::integer(2), 0); }
bool is_divisible(const Value& value, const Value& by) { return has_rest(value, by, 0); }
bool is_other(const Value& left, const Value& right) { return !equals(left, right); }
bool is_below(const Value& left, const Value& right) { return less(left, right, "<"); }
bool is_at_most(const Value& left, const Value& right) { return less_or_equal(left, right, "<="); }
bool is_above(const Value& left, const Value& right) { return less(right, left, ">"); }
bool is_at_least(const Value& left, const Value& right) { return less_or_equal(right, left, ">="); }
bool is_in(const Value& item, const Value& container) { return contains(container, item); }

}  // namespace

Test find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> kTests = {
      {"defined", plain<is_defined>},
      {"undefined", plain<is_not_defined>},
      {"none", plain<is_nothing>},
      {"boolean", plain<is_boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<is_integer>},
      {"float", plain<is_float>},
      {"number", plain<is_number>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"sequence", plain<is_sequence>},
      {"iterable", plain<is_iterable>},
      {"callable", plain<is_callable>},
      {"escaped", plain<is_escaped>},
      {"lower", plain<is_lower_case>},
      {"upper", plain<is_upper_case>},
      {"filter", plain<is_filter>},
      {"test", plain<is_test>},
      {"odd", plain<is_odd>},
      {"even", plain<is_even>},
      {"divisibleby", against<is_divisible>},
      {"sameas", against<same>},
      {"in", against<is_in>},
      {"==", against<equals>},
      {"eq", against<equals>},
      {"equalto", against<equals>},
      {"!=", against<is_other>},
      {"ne", against<is_other>},
      {"<", against<is_below>},
      {"lt", against<is_below>},
      {"lessthan", against<is_below>},
      {"<=", against<is_at_most>},
      {"le", against<is_at_most>},
      {">", against<is_above>},
      {"gt", against<is_above>},
      {"greaterthan", against<is_above>},
      {">=", against<is_at_least>},
      {"ge", against<is_at_least>},
  };
  const auto found = kTests.find(name);
  return found == kTests.end() ? nullptr : found->second;
}

}  // namespace braid::jinja
