// SPDX-License-Identifier: Apache-2.0
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

// Characters whose upper or title case is several characters (Unicode's SpecialCasing, unconditional rows).
struct LongCase {
  uint32_t code;
  const char *upper, *title;
};

constexpr std::array kLongCases = std::to_array<LongCase>({
    {0x00DF, "\x53\x53", "\x53\x73"},
    {0x0149, "\xca\xbc\x4e", "\xca\xbc\x4e"},
    {0x01F0, "\x4a\xcc\x8c", "\x4a\xcc\x8c"},
    {0x0390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x03B0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x0587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x1E96, "\x48\xcc\xb1", "\x48\xcc\xb1"},
    {0x1E97, "\x54\xcc\x88", "\x54\xcc\x88"},
    {0x1E98, "\x57\xcc\x8a", "\x57\xcc\x8a"},
    {0x1E99, "\x59\xcc\x8a", "\x59\xcc\x8a"},
    {0x1E9A, "\x41\xca\xbe", "\x41\xca\xbe"},
    {0x1F50, "\xce\xa5\xcc\x93", "\xce\xa5\xcc\x93"},
    {0x1F52, "\xce\xa5\xcc\x93\xcc\x80", "\xce\xa5\xcc\x93\xcc\x80"},
    {0x1F54, "\xce\xa5\xcc\x93\xcc\x81", "\xce\xa5\xcc\x93\xcc\x81"},
    {0x1F56, "\xce\xa5\xcc\x93\xcd\x82", "\xce\xa5\xcc\x93\xcd\x82"},
    {0x1F80, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1F81, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1F82, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1F83, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1F84, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1F85, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1F86, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1F87, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1F88, "\xe1\xbc\x88\xce\x99", "\xe1\xbe\x88"},
    {0x1F89, "\xe1\xbc\x89\xce\x99", "\xe1\xbe\x89"},
    {0x1F8A, "\xe1\xbc\x8a\xce\x99", "\xe1\xbe\x8a"},
    {0x1F8B, "\xe1\xbc\x8b\xce\x99", "\xe1\xbe\x8b"},
    {0x1F8C, "\xe1\xbc\x8c\xce\x99", "\xe1\xbe\x8c"},
    {0x1F8D, "\xe1\xbc\x8d\xce\x99", "\xe1\xbe\x8d"},
    {0x1F8E, "\xe1\xbc\x8e\xce\x99", "\xe1\xbe\x8e"},
    {0x1F8F, "\xe1\xbc\x8f\xce\x99", "\xe1\xbe\x8f"},
    {0x1F90, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1F91, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1F92, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1F93, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1F94, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1F95, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1F96, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1F97, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1F98, "\xe1\xbc\xa8\xce\x99", "\xe1\xbe\x98"},
    {0x1F99, "\xe1\xbc\xa9\xce\x99", "\xe1\xbe\x99"},
    {0x1F9A, "\xe1\xbc\xaa\xce\x99", "\xe1\xbe\x9a"},
    {0x1F9B, "\xe1\xbc\xab\xce\x99", "\xe1\xbe\x9b"},
    {0x1F9C, "\xe1\xbc\xac\xce\x99", "\xe1\xbe\x9c"},
    {0x1F9D, "\xe1\xbc\xad\xce\x99", "\xe1\xbe\x9d"},
    {0x1F9E, "\xe1\xbc\xae\xce\x99", "\xe1\xbe\x9e"},
    {0x1F9F, "\xe1\xbc\xaf\xce\x99", "\xe1\xbe\x9f"},
    {0x1FA0, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1FA1, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1FA2, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1FA3, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1FA4, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1FA5, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1FA6, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1FA7, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1FA8, "\xe1\xbd\xa8\xce\x99", "\xe1\xbe\xa8"},
    {0x1FA9, "\xe1\xbd\xa9\xce\x99", "\xe1\xbe\xa9"},
    {0x1FAA, "\xe1\xbd\xaa\xce\x99", "\xe1\xbe\xaa"},
    {0x1FAB, "\xe1\xbd\xab\xce\x99", "\xe1\xbe\xab"},
    {0x1FAC, "\xe1\xbd\xac\xce\x99", "\xe1\xbe\xac"},
    {0x1FAD, "\xe1\xbd\xad\xce\x99", "\xe1\xbe\xad"},
    {0x1FAE, "\xe1\xbd\xae\xce\x99", "\xe1\xbe\xae"},
    {0x1FAF, "\xe1\xbd\xaf\xce\x99", "\xe1\xbe\xaf"},
    {0x1FB2, "\xe1\xbe\xba\xce\x99", "\xe1\xbe\xba\xcd\x85"},
    {0x1FB3, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1FB4, "\xce\x86\xce\x99", "\xce\x86\xcd\x85"},
    {0x1FB6, "\xce\x91\xcd\x82", "\xce\x91\xcd\x82"},
    {0x1FB7, "\xce\x91\xcd\x82\xce\x99", "\xce\x91\xcd\x82\xcd\x85"},
    {0x1FBC, "\xce\x91\xce\x99", "\xe1\xbe\xbc"},
    {0x1FC2, "\xe1\xbf\x8a\xce\x99", "\xe1\xbf\x8a\xcd\x85"},
    {0x1FC3, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1FC4, "\xce\x89\xce\x99", "\xce\x89\xcd\x85"},
    {0x1FC6, "\xce\x97\xcd\x82", "\xce\x97\xcd\x82"},
    {0x1FC7, "\xce\x97\xcd\x82\xce\x99", "\xce\x97\xcd\x82\xcd\x85"},
    {0x1FCC, "\xce\x97\xce\x99", "\xe1\xbf\x8c"},
    {0x1FD2, "\xce\x99\xcc\x88\xcc\x80", "\xce\x99\xcc\x88\xcc\x80"},
    {0x1FD3, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x1FD6, "\xce\x99\xcd\x82", "\xce\x99\xcd\x82"},
    {0x1FD7, "\xce\x99\xcc\x88\xcd\x82", "\xce\x99\xcc\x88\xcd\x82"},
    {0x1FE2, "\xce\xa5\xcc\x88\xcc\x80", "\xce\xa5\xcc\x88\xcc\x80"},
    {0x1FE3, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x1FE4, "\xce\xa1\xcc\x93", "\xce\xa1\xcc\x93"},
    {0x1FE6, "\xce\xa5\xcd\x82", "\xce\xa5\xcd\x82"},
    {0x1FE7, "\xce\xa5\xcc\x88\xcd\x82", "\xce\xa5\xcc\x88\xcd\x82"},
    {0x1FF2, "\xe1\xbf\xba\xce\x99", "\xe1\xbf\xba\xcd\x85"},
    {0x1FF3, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0x1FF4, "\xce\x8f\xce\x99", "\xce\x8f\xcd\x85"},
    {0x1FF6, "\xce\xa9\xcd\x82", "\xce\xa9\xcd\x82"},
    {0x1FF7, "\xce\xa9\xcd\x82\xce\x99", "\xce\xa9\xcd\x82\xcd\x85"},
    {0x1FFC, "\xce\xa9\xce\x99", "\xe1\xbf\xbc"},
    {0xFB00, "\x46\x46", "\x46\x66"},
    {0xFB01, "\x46\x49", "\x46\x69"},
    {0xFB02, "\x46\x4c", "\x46\x6c"},
    {0xFB03, "\x46\x46\x49", "\x46\x66\x69"},
    {0xFB04, "\x46\x46\x4c", "\x46\x66\x6c"},
    {0xFB05, "\x53\x54", "\x53\x74"},
    {0xFB06, "\x53\x54", "\x53\x74"},
    {0xFB13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"},
    {0xFB14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xFB15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"},
    {0xFB16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xFB17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"},
});

// Digits that are not decimal: superscripts, circled digits and the like.
constexpr std::array<std::array<uint32_t, 2>, 20> kOtherDigits = {{
    {178, 179},     {185, 185},     {4969, 4977},   {6618, 6618},   {8304, 8304},   {8308, 8313},     {8320, 8329},
    {9312, 9320},   {9332, 9340},   {9352, 9360},   {9450, 9450},   {9461, 9469},   {9471, 9471},     {10102, 10110},
    {10112, 10120}, {10122, 10130}, {68160, 68163}, {69216, 69224}, {69714, 69722}, {127232, 127242},
}};

// Letters and marks that Unicode calls lower or upper case though their category is another.
constexpr std::array<std::array<uint32_t, 2>, 24> kOtherLower = {{
    {0xAA, 0xAA},     {0xBA, 0xBA},     {0x2B0, 0x2B8},     {0x2C0, 0x2C1},     {0x2E0, 0x2E4},     {0x345, 0x345},
    {0x37A, 0x37A},   {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
    {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9},   {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},
    {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
}};
constexpr std::array<std::array<uint32_t, 2>, 5> kOtherUpper = {
    {{0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}}};

template <size_t n>
bool in_ranges(uint32_t code, const std::array<std::array<uint32_t, 2>, n>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const auto& range) { return code >= range[0] && code <= range[1]; });
}

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

const LongCase* long_case(uint32_t code) {
  if (code < kLongCases.front().code) return nullptr;
  const auto found = std::lower_bound(kLongCases.begin(), kLongCases.end(), code,
                                      [](const LongCase& row, uint32_t wanted) { return row.code < wanted; });
  return found != kLongCases.end() && found->code == code ? &*found : nullptr;
}

void put_upper(std::string& out, uint32_t code) {
  if (const LongCase* row = long_case(code)) {
    out += row->upper;
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
  }
}

void put_title(std::string& out, uint32_t code) {
  if (const LongCase* row = long_case(code)) {
    out += row->title;
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
  }
}

bool lower_code(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LL || in_ranges(code, kOtherLower); }
bool upper_code(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_LU || in_ranges(code, kOtherUpper); }
bool cased(uint32_t code) { return lower_code(code) || upper_code(code) || category(code) == UTF8PROC_CATEGORY_LT; }

bool case_ignorable(uint32_t code) {
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_SK || code == '\'' || code == '.' || code == ':' ||
         code == 0xB7 || code == 0x2019;
}

// A capital sigma ends a word where a cased letter stands before it and none after it.
bool final_sigma(const std::vector<uint32_t>& text, size_t at) {
  size_t before = at;
  while (before > 0 && case_ignorable(text[before - 1])) --before;
  if (before == 0 || !cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && case_ignorable(text[after])) ++after;
  return after == text.size() || !cased(text[after]);
}

void put_lower(std::string& out, const std::vector<uint32_t>& text, size_t at) {
  const uint32_t code = text[at];
  if (code == 0x130) {
    out += "i\xcc\x87";
  } else if (code == 0x3A3) {
    append_utf8(out, final_sigma(text, at) ? 0x3C2 : 0x3C3);
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

bool letter(uint32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

}  // namespace

std::string change_case(std::string_view text, Case wanted) {
  std::string out;
  out.reserve(text.size());
  if (is_ascii(text) && (wanted == Case::Upper || wanted == Case::Lower)) {
    for (const char c : text) {
      const bool changes = wanted == Case::Upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
      out += changes ? static_cast<char>(c ^ 0x20) : c;
    }
    return out;
  }
  const std::vector<uint32_t> codes = to_characters(text);
  bool inside_word = false;
  for (size_t i = 0; i < codes.size(); ++i) {
    const bool first = wanted == Case::Title ? !inside_word : wanted == Case::Capitalized && i == 0;
    if (wanted == Case::Upper || (wanted == Case::Swapped && lower_code(codes[i]))) {
      put_upper(out, codes[i]);
    } else if (first) {
      put_title(out, codes[i]);
    } else if (wanted != Case::Swapped || upper_code(codes[i])) {
      put_lower(out, codes, i);
    } else {
      append_utf8(out, codes[i]);
    }
    inside_word = cased(codes[i]);
  }
  return out;
}

std::string upper_first(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = decode_utf8(text, 0).bytes;
  return change_case(text.substr(0, first), Case::Upper) + change_case(text.substr(first), Case::Lower);
}

bool in_class(uint32_t code, CharacterClass wanted) {
  const auto kind = category(code);
  switch (wanted) {
    case CharacterClass::Alpha:
      return letter(code);
    case CharacterClass::Decimal:
      return kind == UTF8PROC_CATEGORY_ND;
    case CharacterClass::Digit:
      return kind == UTF8PROC_CATEGORY_ND || in_ranges(code, kOtherDigits);
    case CharacterClass::Numeric:
      return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
    case CharacterClass::Alnum:
      return letter(code) || in_class(code, CharacterClass::Numeric);
    case CharacterClass::Space:
      return is_space(code);
    case CharacterClass::Ascii:
      return code < 0x80;
    case CharacterClass::Printable:
      break;
  }
  const bool blank = kind >= UTF8PROC_CATEGORY_ZS && kind <= UTF8PROC_CATEGORY_CO;  // Zs Zl Zp Cc Cf Cs Co
  return code == ' ' || (!blank && kind != UTF8PROC_CATEGORY_CN);
}

bool all_in_class(std::string_view text, CharacterClass wanted) {
  if (text.empty()) return wanted == CharacterClass::Printable || wanted == CharacterClass::Ascii;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!in_class(c.code, wanted)) return false;
    at += c.bytes;
  }
  return true;
}

bool is_word_character(uint32_t code) { return code == '_' || in_class(code, CharacterClass::Alnum); }

bool is_lower(std::string_view text) {
  bool any = false;
  for (const uint32_t code : to_characters(text)) {
    if (upper_code(code) || category(code) == UTF8PROC_CATEGORY_LT) return false;
    any |= lower_code(code);
  }
  return any;
}

bool is_upper(std::string_view text) {
  bool any = false;
  for (const uint32_t code : to_characters(text)) {
    if (lower_code(code) || category(code) == UTF8PROC_CATEGORY_LT) return false;
    any |= upper_code(code);
  }
  return any;
}

bool is_title(std::string_view text) {
  bool any = false, inside_word = false;
  for (const uint32_t code : to_characters(text)) {
    const bool capital = upper_code(code) || category(code) == UTF8PROC_CATEGORY_LT;
    if (capital ? inside_word : lower_code(code) && !inside_word) return false;
    inside_word = capital || lower_code(code);
    any |= inside_word;
  }
  return any;
}

}  // namespace braid::jinja
