// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "text/template/arguments.h"
#include "text/template/iterate.h"
#include "text/template/methods.h"
#include "text/template/numbers.h"
#include "text/template/operators.h"
#include "text/template/printing.h"
#include "text/template/python_format.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

// A string made from `self`, which stays marked as safe where it was.
Value derived(const Value& self, std::string bytes) { return Value::text(std::move(bytes), self.as_text()->markup()); }

Value list_of(const Value& self, std::vector<std::string> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.push_back(derived(self, std::move(part)));
  return Value::list(std::move(items));
}

void no_arguments(std::string_view name, const Arguments& arguments) { Bound(arguments, {.function = name}); }

template <Case wanted>
Value cased(Interpreter&, const Value& self, const Arguments& arguments) {
  no_arguments("case method", arguments);
  return derived(self, change_case(self.as_text()->bytes(), wanted));
}

template <CharacterClass wanted>
Value classified(Interpreter&, const Value& self, const Arguments& arguments) {
  no_arguments("character test", arguments);
  return Value::boolean(all_in_class(self.as_text()->bytes(), wanted));
}

template <bool (*test)(std::string_view)>
Value tested(Interpreter&, const Value& self, const Arguments& arguments) {
  no_arguments("case test", arguments);
  return Value::boolean(test(self.as_text()->bytes()));
}

template <Side side>
Value stripped(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "strip", .parameters = {"chars"}, .unnamed = 1});
  const auto characters = bound.text(0);
  return derived(self, std::string(strip(self.as_text()->bytes(), side, characters)));
}

template <bool from_right>
Value split_text(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "split", .parameters = {"sep", "maxsplit"}});
  const auto separator = bound.text(0);
  const int64_t limit = bound.integer(1, -1);
  const std::string& text = self.as_text()->bytes();
  return list_of(self, from_right ? split_from_right(text, separator, limit) : split(text, separator, limit));
}

Value split_into_lines(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "splitlines", .parameters = {"keepends"}});
  return list_of(self, split_lines(self.as_text()->bytes(), bound.flag(0, false)));
}

template <bool from_right>
Value partition(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "partition", .parameters = {"sep"}, .required = 1, .unnamed = 1});
  const std::string separator = bound.text(0).value_or("");
  if (separator.empty()) raise("empty separator");
  const std::string& text = self.as_text()->bytes();
  const size_t at = from_right ? find_last_bytes(text, separator) : find_bytes(text, separator);
  const auto make = [&](std::string head, std::string middle, std::string tail) {
    return Value::tuple(
        {derived(self, std::move(head)), derived(self, std::move(middle)), derived(self, std::move(tail))});
  };
  if (at == std::string::npos) return from_right ? make("", "", text) : make(text, "", "");
  return make(text.substr(0, at), separator, text.substr(at + separator.size()));
}

struct Window {
  std::string_view text;  // the part that start and end leave
  size_t skipped;         // characters before it
  bool empty_range;       // start lies behind the end: not even an empty string is found there
};

// The optional start and end arguments of find, count, startswith and their kin.
Window window_of(const Value& self, const Bound& bound) {
  const Text& text = *self.as_text();
  const auto length = static_cast<int64_t>(text.length());
  const auto place = [&](size_t at, int64_t missing) {
    if (!bound.given(at) || bound.value(at).is_none()) return missing;
    const int64_t given = bound.integer(at, 0);
    return given < 0 ? std::max<int64_t>(given + length, 0) : given;
  };
  const int64_t start = place(1, 0), end = std::min(place(2, length), length);
  if (start > end) return {"", static_cast<size_t>(start), true};
  const size_t from = byte_offset(text.bytes(), static_cast<size_t>(start));
  const std::string_view rest = std::string_view(text.bytes()).substr(from);
  const std::string_view part =
      end == length ? rest : rest.substr(0, byte_offset(rest, static_cast<size_t>(end - start)));
  return {part, static_cast<size_t>(start), false};
}

Bound search_arguments(std::string_view name, const Arguments& arguments) {
  return {arguments, {.function = name, .parameters = {"sub", "start", "end"}, .required = 1, .unnamed = 3}};
}

std::string needed_text(const Bound& bound, size_t at) {
  const auto text = bound.text(at);
  if (!text) raise("must be str, not None");
  return *text;
}

template <bool last, bool must_exist>
Value find_in(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound = search_arguments("find", arguments);
  const std::string part = needed_text(bound, 0);
  const Window window = window_of(self, bound);
  const size_t at = window.empty_range ? std::string::npos
                    : last             ? find_last_bytes(window.text, part)
                                       : find_bytes(window.text, part);
  if (at != std::string::npos) {
    return Value::integer(static_cast<int64_t>(window.skipped + character_count(window.text.substr(0, at))));
  }
  if (must_exist) raise("substring not found");
  return Value::integer(-1);
}

Value count_in(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound = search_arguments("count", arguments);
  const std::string part = needed_text(bound, 0);
  const Window window = window_of(self, bound);
  return Value::integer(window.empty_range ? 0 : count_occurrences(window.text, part));
}

template <bool at_end>
Value has_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound = search_arguments(at_end ? "endswith" : "startswith", arguments);
  const Window window = window_of(self, bound);
  const auto matches = [&](const Value& affix) {
    const Text* text = affix.as_text();
    if (!text) raise("first arg must be str or a tuple of str, not {}", type_name(affix));
    if (window.empty_range) return false;
    return at_end ? window.text.ends_with(text->bytes()) : window.text.starts_with(text->bytes());
  };
  const Value wanted = bound.value(0);
  const auto* tuple = wanted.as<Tuple>();
  if (!tuple) return Value::boolean(matches(wanted));
  const auto& items = tuple->sequence->items;
  return Value::boolean(std::any_of(items.begin(), items.end(), matches));
}

template <bool at_end>
Value without_affix(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "removeprefix", .parameters = {"affix"}, .required = 1, .unnamed = 1});
  const std::string affix = needed_text(bound, 0);
  std::string_view text = self.as_text()->bytes();
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  return derived(self, std::string(text));
}

Value replace_in(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "replace", .parameters = {"old", "new", "count"}, .required = 2, .unnamed = 3});
  const std::string old = needed_text(bound, 0);
  std::string fresh = needed_text(bound, 1);
  const Value argument = bound.value(1);
  const Text* given = argument.as_text();
  if (self.as_text()->markup() && !given->markup()) fresh = escape_html(fresh);
  return derived(self, replace(self.as_text()->bytes(), {old, fresh, bound.integer(2, -1)}));
}

Value join_items(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "join", .parameters = {"iterable"}, .required = 1, .unnamed = 1});
  const std::vector<Value> items = to_items(bound.value(0));
  const Text& separator = *self.as_text();
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    const Text* text = items[i].as_text();
    if (!text) raise("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    if (i > 0) out += separator.bytes();
    check_text_size(out.size() + text->bytes().size());
    out += separator.markup() && !text->markup() ? escape_html(text->bytes()) : text->bytes();
  }
  return derived(self, std::move(out));
}

Value format_text(Interpreter&, const Value& self, const Arguments& arguments) {
  return derived(self, format_braces(self.as_text()->bytes(), arguments));
}

Value format_with_map(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "format_map", .parameters = {"mapping"}, .required = 1, .unnamed = 1});
  const Value mapping = bound.value(0);
  const Dict* dict = mapping.as_dict();
  if (!dict) raise("format_map() argument must be a mapping, not {}", type_name(mapping));
  Arguments named;
  for (const auto& [key, value] : dict->entries()) {
    if (const Text* name = key.as_text()) named.named.emplace_back(name->bytes(), value);
  }
  return derived(self, format_braces(self.as_text()->bytes(), named));
}

template <Side side>
Value justified(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments,
                    {.function = "justify", .parameters = {"width", "fillchar"}, .required = 1, .unnamed = 2});
  const std::string fill = bound.text(1).value_or(" ");
  if (character_count(fill) != 1) raise("The fill character must be exactly one character long");
  return derived(self, pad(self.as_text()->bytes(), bound.integer(0, 0), side, fill));
}

Value zero_filled(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "zfill", .parameters = {"width"}, .required = 1, .unnamed = 1});
  const std::string& text = self.as_text()->bytes();
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::string_view digits = std::string_view(text).substr(sign ? 1 : 0);
  const int64_t width = bound.integer(0, 0);
  return derived(self, text.substr(0, sign ? 1 : 0) + pad(digits, width - (sign ? 1 : 0), Side::Left, "0"));
}

Value expand_tabs(Interpreter&, const Value& self, const Arguments& arguments) {
  const Bound bound(arguments, {.function = "expandtabs", .parameters = {"tabsize"}});
  const int64_t size = bound.integer(0, 8);
  std::string out;
  int64_t column = 0;
  for (const uint32_t code : to_characters(self.as_text()->bytes())) {
    if (code == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out += repeat(" ", spaces);
      column += spaces;
    } else {
      out += from_characters({code});
      column = code == '\n' || code == '\r' ? 0 : column + 1;
    }
    check_text_size(out.size());
  }
  return derived(self, std::move(out));
}

}  // namespace

Method find_text_method(std::string_view name) {
  static const std::unordered_map<std::string_view, Method> kMethods = {
      {"upper", cased<Case::Upper>},
      {"lower", cased<Case::Lower>},
      {"casefold", cased<Case::Lower>},
      {"title", cased<Case::Title>},
      {"capitalize", cased<Case::Capitalized>},
      {"swapcase", cased<Case::Swapped>},
      {"isalpha", classified<CharacterClass::Alpha>},
      {"isdecimal", classified<CharacterClass::Decimal>},
      {"isdigit", classified<CharacterClass::Digit>},
      {"isnumeric", classified<CharacterClass::Numeric>},
      {"isalnum", classified<CharacterClass::Alnum>},
      {"isspace", classified<CharacterClass::Space>},
      {"isprintable", classified<CharacterClass::Printable>},
      {"isascii", classified<CharacterClass::Ascii>},
      {"islower", tested<is_lower>},
      {"isupper", tested<is_upper>},
      {"istitle", tested<is_title>},
      {"strip", stripped<Side::Both>},
      {"lstrip", stripped<Side::Left>},
      {"rstrip", stripped<Side::Right>},
      {"split", split_text<false>},
      {"rsplit", split_text<true>},
      {"splitlines", split_into_lines},
      {"partition", partition<false>},
      {"rpartition", partition<true>},
      {"find", find_in<false, false>},
      {"rfind", find_in<true, false>},
      {"index", find_in<false, true>},
      {"rindex", find_in<true, true>},
      {"count", count_in},
      {"startswith", has_affix<false>},
      {"endswith", has_affix<true>},
      {"removeprefix", without_affix<false>},
      {"removesuffix", without_affix<true>},
      {"replace", replace_in},
      {"join", join_items},
      {"format", format_text},
      {"format_map", format_with_map},
      {"ljust", justified<Side::Right>},
      {"rjust", justified<Side::Left>},
      {"center", justified<Side::Both>},
      {"zfill", zero_filled},
      {"expandtabs", expand_tabs},
  };
  const auto found = kMethods.find(name);
  return found == kMethods.end() ? nullptr : found->second;
}

}  // namespace braid::jinja
