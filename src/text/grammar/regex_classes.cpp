// Classes as ECMAScript defines them with its flag u.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex_classes.h"

#include <cctype>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {
namespace {

const CodePointSet& digits() {
  static const CodePointSet set = CodePointSet::of('0', '9');
  return set;
}

const CodePointSet& word_characters() {
  static const CodePointSet set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return set;
}

const CodePointSet& spaces() {
  static const CodePointSet set =
      CodePointSet({{'\t', '\r'}}) | CodePointSet::of_each(U"\uFEFF\u2028\u2029") | category_set("Zs");
  return set;
}

// A pass over all characters, so it is kept.
const CodePointSet& category(const std::string& name) {
  static std::mutex lock;
  static std::map<std::string, CodePointSet> known;
  const std::lock_guard guard(lock);
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, category_set(name)).first->second;
}

CodePointSet parse_property(RegexText& in) {
  static const std::map<std::string_view, std::string_view> kLong{{"Letter", "L"},
                                                                  {"Mark", "M"},
                                                                  {"Number", "N"},
                                                                  {"Punctuation", "P"},
                                                                  {"Symbol", "S"},
                                                                  {"Separator", "Z"},
                                                                  {"Uppercase_Letter", "Lu"},
                                                                  {"Lowercase_Letter", "Ll"},
                                                                  {"Decimal_Number", "Nd"}};
  if (!in.take("{")) in.refuse("\\p needs a property in braces");
  std::string name;
  while (!in.done() && in.peek() != '}') name += in.next();
  if (!in.take("}")) in.refuse("\\p needs a property in braces");
  if (name == "Any") return CodePointSet::all();
  if (const auto known = kLong.find(name); known != kLong.end()) name = known->second;
  if (name.empty() || name.size() > 2 || category(name).empty()) in.refuse("this Unicode property is not supported");
  return category(name);
}

CodePointSet single(uint32_t code) { return CodePointSet::of(code, code); }

uint32_t parse_unicode_escape(RegexText& in) {
  if (in.take("{")) {
    uint32_t code = 0;
    while (!in.done() && in.peek() != '}') {
      code = code * 16 + in.hexadecimal(1);
      if (code > 0x10FFFF) in.refuse("there is no such character");
    }
    if (!in.take("}")) in.refuse("\\u{ needs a closing brace");
    return code;
  }
  const uint32_t code = in.hexadecimal(4);
  const bool high = code >= 0xD800 && code < 0xDC00;
  if (!high || in.peek() != '\\' || in.peek(1) != 'u') return code;
  in.at += 2;
  const uint32_t low = in.hexadecimal(4);
  if (low < 0xDC00 || low > 0xDFFF) in.refuse("a surrogate without its other half");
  return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
}

// The one character that a set holds, if it holds one: an end of a range.
std::optional<uint32_t> only(const CodePointSet& set) {
  if (set.ranges().size() != 1 || set.ranges()[0].first != set.ranges()[0].last) return std::nullopt;
  return set.ranges()[0].first;
}

CodePointSet parse_class_item(RegexText& in) {
  if (!in.take("\\")) return single(in.next_code());
  if (in.take("b")) return single('\b');
  if (in.take("-")) return single('-');
  return parse_class_escape(in);
}

}  // namespace

bool RegexText::take(std::string_view expected) {
  if (text.substr(at, expected.size()) != expected) return false;
  at += expected.size();
  return true;
}

uint32_t RegexText::next_code() {
  const Utf8Char character = decode_utf8(text, at);
  at += character.bytes;
  return character.code;
}

uint32_t RegexText::hexadecimal(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char digit = peek();
    if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) refuse("a hexadecimal digit is missing");
    value = value * 16 + static_cast<uint32_t>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
    ++at;
  }
  return value;
}

void RegexText::refuse(std::string_view what) const {
  constexpr size_t kShown = 80;
  const std::string shown = text.size() <= kShown ? std::string(text) : to_valid_utf8(text.substr(0, kShown)) + "...";
  fail("'{}', at byte {}: {}", shown, at, what);
}

CodePointSet parse_class_escape(RegexText& in) {
  static const std::map<char, uint32_t> kControls{{'t', '\t'}, {'n', '\n'}, {'r', '\r'},
                                                  {'f', '\f'}, {'v', '\v'}, {'0', 0}};
  if (in.done()) in.refuse("the pattern ends in a backslash");
  if (in.take("d")) return digits();
  if (in.take("D")) return CodePointSet::all() - digits();
  if (in.take("w")) return word_characters();
  if (in.take("W")) return CodePointSet::all() - word_characters();
  if (in.take("s")) return spaces();
  if (in.take("S")) return CodePointSet::all() - spaces();
  if (in.take("p")) return parse_property(in);
  if (in.take("P")) return CodePointSet::all() - parse_property(in);
  if (in.take("x")) return single(in.hexadecimal(2));
  if (in.take("u")) return single(parse_unicode_escape(in));
  if (in.take("c")) {
    if (std::isalpha(static_cast<unsigned char>(in.peek())) == 0) in.refuse("\\c needs a letter");
    return single(static_cast<uint32_t>(in.next()) % 32);
  }
  if (const auto control = kControls.find(in.peek()); control != kControls.end()) {
    ++in.at;
    return single(control->second);
  }
  if (std::isalnum(static_cast<unsigned char>(in.peek())) != 0) in.refuse("this escape is not supported");
  return single(in.next_code());
}

CodePointSet parse_class(RegexText& in) {
  const bool negated = in.take("^");
  std::vector<CodePointRange> ranges;
  while (!in.take("]")) {
    if (in.done()) in.refuse("unmatched '['");
    const CodePointSet item = parse_class_item(in);
    const std::optional<uint32_t> first = only(item);
    const bool range = first && in.peek() == '-' && in.peek(1) != ']' && in.peek(1) != '\0';
    if (!range) {
      ranges.insert(ranges.end(), item.ranges().begin(), item.ranges().end());
      continue;
    }
    ++in.at;
    const CodePointSet end = parse_class_item(in);
    const std::optional<uint32_t> last = only(end);
    if (last && *last < *first) in.refuse("a range in [] is out of order");
    if (last) {
      ranges.push_back({*first, *last});
    } else {  // a class is no end of a range: the hyphen is itself
      ranges.push_back({*first, *first});
      ranges.push_back({'-', '-'});
      ranges.insert(ranges.end(), end.ranges().begin(), end.ranges().end());
    }
  }
  CodePointSet set(std::move(ranges));
  return negated ? CodePointSet::all() - set : set;
}

}  // namespace braid
