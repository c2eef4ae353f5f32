// SPDX-License-Identifier: Apache-2.0
#include "text/template/number_format.h"

#include <cmath>

#include "base/utf8.h"
#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

// More digits than any double has; wider requests are refused by the width limit.
constexpr int64_t kMaxPrecision = 1100;

std::string sign_of(bool negative, const FieldStyle& style) {
  if (negative) return "-";
  return style.sign == '-' ? "" : std::string(1, style.sign);
}

std::string grouped(std::string_view digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c ^ 0x20) : c;
  return text;
}

std::string digits_of_float(double number, const FieldStyle& style) {
  const int precision = static_cast<int>(style.precision);
  const bool alternate = style.alternate;
  switch (style.type | 0x20) {
    case 'f':
      return alternate ? fmt::format("{:#.{}f}", number, precision) : fmt::format("{:.{}f}", number, precision);
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", number, precision) : fmt::format("{:.{}e}", number, precision);
    default:
      return alternate ? fmt::format("{:#.{}g}", number, precision) : fmt::format("{:.{}g}", number, precision);
  }
}

// Without a type: as repr, or like 'g' but with at least one digit after the point.
std::string general_float(double number, const FieldStyle& style) {
  if (style.precision < 0) return print_float(number);
  FieldStyle like_g = style;
  like_g.type = 'g';
  if (like_g.precision == 0) like_g.precision = 1;
  std::string digits = digits_of_float(number, like_g);
  if (digits.find_first_of(".e") == std::string::npos) {
    const bool fits = static_cast<int64_t>(digits.size()) < like_g.precision;
    if (fits) return digits + ".0";
    like_g.type = 'e';
    like_g.precision -= 1;
    digits = digits_of_float(number, like_g);
    if (const size_t point = digits.find('.'); point != std::string::npos) {
      const size_t mark = digits.find('e');
      size_t end = mark;
      while (digits[end - 1] == '0') --end;
      if (digits[end - 1] == '.') --end;
      digits.erase(end, mark - end);
    }
  }
  return digits;
}

}  // namespace

std::string pad_text(std::string_view text, const FieldStyle& style) {
  const Side side = style.align == '>' ? Side::Left : style.align == '^' ? Side::Both : Side::Right;
  if (style.align == '=') raise("'=' alignment not allowed in string format specifier");
  const auto length = static_cast<int64_t>(character_count(text));
  if (side != Side::Both || style.width <= length) return pad(text, style.width, side, style.fill);
  const int64_t left = (style.width - length) / 2;
  return repeat(style.fill, left) + std::string(text) + repeat(style.fill, style.width - length - left);
}

std::string pad_number(std::string_view sign, std::string_view digits, const FieldStyle& style) {
  if (style.align == '=') {
    const int64_t room = style.width - static_cast<int64_t>(sign.size());
    return std::string(sign) + pad(digits, room, Side::Left, style.fill);
  }
  FieldStyle aligned = style;
  if (aligned.align == 0) aligned.align = '>';
  return pad_text(std::string(sign) + std::string(digits), aligned);
}

std::string format_integer(Integer number, const FieldStyle& style) {
  if (style.precision >= 0) raise("Precision not allowed in integer format specifier");
  if (style.type == 'c') {
    if (number < 0 || number > 0x10FFFF) raise("%c arg not in range(0x110000)");
    std::string character;
    append_utf8(character, static_cast<uint32_t>(number));
    return pad_text(character, style);
  }
  const char kind = static_cast<char>(style.type | 0x20);
  const unsigned base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
  std::string digits = print_integer(number, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (style.grouping != 0) digits = grouped(digits, style.grouping, base == 10 ? 3 : 4);
  std::string sign = sign_of(negative, style);
  if (style.alternate && base != 10) sign += base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (style.type == 'X') {
    digits = upper(digits);
    sign = upper(sign);
  }
  return pad_number(sign, digits, style);
}

std::string format_float(double number, const FieldStyle& style) {
  if (style.precision > kMaxPrecision) raise_limit("a number with more than {} digits", kMaxPrecision);
  const bool negative = std::signbit(number) && !std::isnan(number);
  const bool percent = style.type == '%';
  FieldStyle wanted = style;
  if (percent) wanted.type = 'f';
  if (wanted.type == 'n') wanted.type = 'g';
  if (wanted.type != 0 && wanted.precision < 0) wanted.precision = 6;
  const double size = std::abs(number) * (percent ? 100 : 1);
  std::string digits = std::isfinite(size)
                           ? (wanted.type == 0 ? general_float(size, wanted) : digits_of_float(size, wanted))
                           : (std::isnan(size) ? "nan" : "inf");
  if (style.grouping != 0 && std::isfinite(size)) {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), style.grouping, 3) + digits.substr(whole);
  }
  if (percent) digits += '%';
  if (style.type >= 'A' && style.type <= 'Z') digits = upper(digits);
  return pad_number(sign_of(negative, style), digits, style);
}

}  // namespace braid::jinja
