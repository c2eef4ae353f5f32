// Filters about strings and numbers.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <unordered_map>

#include "text/template/arguments.h"
#include "text/template/builtins.h"
#include "text/template/iterate.h"
#include "text/template/numbers.h"
#include "text/template/operators.h"
#include "text/template/printing.h"
#include "text/template/python_format.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

// The input as a string that keeps its mark of safety.
Text soft_text(const Value& input) {
  const Text* text = input.as_text();
  return text ? *text : Text(to_text(input));
}

Value derived(const Text& source, std::string bytes) { return Value::text(std::move(bytes), source.markup()); }

template <Case wanted>
Value change(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "case filter"});
  const Text text = soft_text(input);
  return derived(text, change_case(text.bytes(), wanted));
}

Value title(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "title"});
  const Text text = soft_text(input);
  std::string out, word;
  for (const uint32_t code : to_characters(text.bytes())) {
    const bool starts_word = code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_space(code);
    if (starts_word) {
      out += upper_first(word) + from_characters({code});
      word.clear();
    } else {
      word += from_characters({code});
    }
  }
  return Value::text(out + upper_first(word));
}

Value trim(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "trim", .parameters = {"chars"}});
  const Text text = soft_text(input);
  return derived(text, std::string(strip(text.bytes(), Side::Both, bound.text(0))));
}

Value replace_all(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "replace", .parameters = {"old", "new", "count"}, .required = 2});
  const int64_t count = bound.value(2).is_none() ? -1 : bound.integer(2, -1);
  return Value::text(replace(to_text(input), {to_text(bound.value(0)), to_text(bound.value(1)), count}));
}

Value as_string(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "string"});
  return Value(Value::Data(soft_text(input)));
}

Value mark_safe(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "safe"});
  return Value::text(to_text(input), true);
}

Value escape(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "escape"});
  const Text text = soft_text(input);
  return Value::text(text.markup() ? text.bytes() : escape_html(text.bytes()), true);
}

Value force_escape(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "forceescape"});
  return Value::text(escape_html(to_text(input)), true);
}

Value center(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "center", .parameters = {"width"}});
  const Text text = soft_text(input);
  return derived(text, pad(text.bytes(), bound.integer(0, 80), Side::Both));
}

Value indent(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "indent", .parameters = {"width", "first", "blank"}});
  if (input.is_undefined()) raise_undefined(input);
  const Text* text = input.as_text();
  if (!text) raise("indent needs a string, not '{}'", type_name(input));
  const Value width = bound.given(0) ? bound.value(0) : Value::integer(4);
  const std::string by = width.is<Text>() ? width.as_text()->bytes() : repeat(" ", index_argument(width, "width"));
  const std::vector<std::string> lines = split_lines(text->bytes() + "\n", false);
  std::string out = bound.flag(1, false) ? by : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (bound.flag(2, false) || !lines[i].empty())) out += by;
    check_text_size(out.size() + lines[i].size());
    out += lines[i];
  }
  return derived(*text, std::move(out));
}

Value truncate_text(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "truncate", .parameters = {"length", "killwords", "end", "leeway"}});
  const int64_t length = bound.integer(0, 255);
  const std::string end = bound.given(2) ? bound.text(2).value_or("") : "...";
  const int64_t leeway = bound.value(3).is_none() ? 5 : bound.integer(3, 5);
  const auto end_length = static_cast<int64_t>(character_count(end));
  if (length < end_length) raise("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) raise("expected leeway >= 0, got {}", leeway);
  const auto size = length_of(input);
  if (!size) raise("object of type '{}' has no len()", type_name(input));
  if (*size <= length || *size - leeway <= length) return input;
  const Text* text = input.as_text();
  if (!text) raise("truncate needs a string, not '{}'", type_name(input));
  const std::string head =
      text->bytes().substr(0, byte_offset(text->bytes(), static_cast<size_t>(length - end_length)));
  if (bound.flag(1, false)) return derived(*text, head + end);
  return derived(*text, split_from_right(head, " ", 1)[0] + end);
}

Value word_count(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "wordcount"});
  int64_t words = 0;
  bool inside = false;
  for (const uint32_t code : to_characters(soft_text(input).bytes())) {
    const bool part = is_word_character(code);
    if (part && !inside) ++words;
    inside = part;
  }
  return Value::integer(words);
}

Value format(Interpreter&, const Value& input, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    raise("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) return format_percent(soft_text(input), Value::tuple(arguments.positional));
  Dict named;
  for (const auto& [name, value] : arguments.named) named.set(Value::text(name), value);
  return format_percent(soft_text(input), make_dict(std::move(named)));
}

Value url_encode(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "urlencode"});
  if (input.is<Text>() || !iterable(input)) return Value::text(quote_url(to_text(input), false));
  std::vector<Value> pairs;
  if (const Dict* dict = input.as_dict()) {
    for (const auto& [key, value] : dict->entries()) pairs.push_back(Value::tuple({key, value}));
  } else {
    pairs = to_items(input);
  }
  std::string out;
  for (const Value& pair : pairs) {
    const std::vector<Value> parts = to_items(pair);
    if (parts.size() != 2) raise("urlencode needs pairs");
    if (!out.empty()) out += '&';
    out += quote_url(to_text(parts[0]), true) + "=" + quote_url(to_text(parts[1]), true);
  }
  return Value::text(std::move(out));
}

std::optional<std::string> json_indent(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (const Text* text = value.as_text()) return text->bytes();
  return repeat(" ", index_argument(value, "indent"));
}

// What the packaged chat templates call, which is not Jinja's own tojson: nothing is escaped for HTML.
Value to_json(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "tojson", .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"}});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.indent = json_indent(bound.value(1));
  style.sort_keys = bound.flag(3, false);
  if (style.indent) style.item_separator = ",";
  if (!bound.value(2).is_none()) {
    const std::vector<Value> separators = to_items(bound.value(2));
    if (separators.size() != 2 || !separators[0].is<Text>() || !separators[1].is<Text>()) {
      raise("tojson separators must be two strings");
    }
    style.item_separator = separators[0].as_text()->bytes();
    style.key_separator = separators[1].as_text()->bytes();
  }
  return Value::text(to_json_text(input, style));
}

Value absolute(Interpreter&, const Value& input, const Arguments& arguments) {
  Bound(arguments, {.function = "abs"});
  const auto number = as_number(input);
  if (!number) {
    if (input.is_undefined()) raise_undefined(input);
    raise("bad operand type for abs(): '{}'", type_name(input));
  }
  if (number->real) return Value::real(std::abs(number->fraction));
  return number->whole < 0 ? negate(input) : Value::integer(number->whole);
}

Value to_integer(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "int", .parameters = {"default", "base"}});
  if (input.is_undefined()) raise_undefined(input);
  const Value missing = bound.given(0) ? bound.value(0) : Value::integer(0);
  if (const auto number = as_number(input)) {
    if (number->real && std::isnan(number->fraction)) return missing;
    return Value::integer(number->real ? truncate(number->fraction) : number->whole);
  }
  const Text* text = input.as_text();
  if (!text) return missing;
  const int64_t base = bound.integer(1, 10);
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto whole = parse_integer(text->bytes(), static_cast<int>(base))) return Value::integer(*whole);
  }
  const auto real = parse_float(text->bytes());
  return real && !std::isnan(*real) ? Value::integer(truncate(*real)) : missing;
}

Value to_float(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "float", .parameters = {"default"}});
  if (input.is_undefined()) raise_undefined(input);
  if (const auto number = as_number(input)) return Value::real(number->as_double());
  const Text* text = input.as_text();
  const auto real = text ? parse_float(text->bytes()) : std::nullopt;
  if (real) return Value::real(*real);
  return bound.given(0) ? bound.value(0) : Value::real(0);
}

Value round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "round", .parameters = {"precision", "method"}});
  const std::string method = bound.given(1) ? bound.text(1).value_or("") : "common";
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  const auto number = as_number(input);
  if (!number) {
    if (input.is_undefined()) raise_undefined(input);
    raise("type {} doesn't define __round__ method", type_name(input));
  }
  const int64_t precision = bound.integer(0, 0);
  if (method == "common") return round_number(*number, precision);
  const Value unit = compute(Arithmetic::Power, {false, 10, 0}, {false, precision, 0});
  const Number scaled = *as_number(compute(Arithmetic::Multiply, *number, *as_number(unit)));
  const double whole = method == "ceil" ? std::ceil(scaled.as_double()) : std::floor(scaled.as_double());
  const Number rounded{false, scaled.real ? truncate(whole) : scaled.whole, 0};
  return compute(Arithmetic::Divide, rounded, *as_number(unit));
}

}  // namespace

Filter find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> kFilters = {
      {"upper", change<Case::Upper>},
      {"lower", change<Case::Lower>},
      {"capitalize", change<Case::Capitalized>},
      {"title", title},
      {"trim", trim},
      {"replace", replace_all},
      {"string", as_string},
      {"safe", mark_safe},
      {"escape", escape},
      {"e", escape},
      {"forceescape", force_escape},
      {"center", center},
      {"indent", indent},
      {"truncate", truncate_text},
      {"wordcount", word_count},
      {"format", format},
      {"urlencode", url_encode},
      {"tojson", to_json},
      {"abs", absolute},
      {"int", to_integer},
      {"float", to_float},
      {"round", round_filter},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace braid::jinja
