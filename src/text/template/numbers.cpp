// SPDX-License-Identifier: Apache-2.0
#include "text/template/numbers.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/template/python_text.h"

namespace braid::jinja {
namespace {

constexpr double kIntegerBound = 0x1p126;  // floats below this convert to Integer exactly

[[noreturn]] void overflow() { raise("integer overflow: the result does not fit 128 bits"); }

Integer floor_divide(Integer left, Integer right) {
  const Integer quotient = left / right;
  return (left % right != 0 && (left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

Integer floor_modulo(Integer left, Integer right) {
  const Integer rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double floor_modulo(double left, double right) {
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

double floor_divide(double left, double right) {
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value power(const Number& left, const Number& right) {
  if (!left.real && !right.real && right.whole >= 0) {
    Integer result = 1, factor = left.whole;
    for (Integer exponent = right.whole; exponent > 0; exponent >>= 1) {
      if ((exponent & 1) && __builtin_mul_overflow(result, factor, &result)) overflow();
      if (exponent > 1 && __builtin_mul_overflow(factor, factor, &factor)) overflow();
    }
    return Value::integer(result);
  }
  const double base = left.as_double(), exponent = right.as_double();
  if (base == 0 && exponent < 0) raise("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && std::floor(exponent) != exponent) {
    raise("a negative number raised to a fraction is a complex number");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) raise("numerical result out of range");
  return Value::real(result);
}

Value compute_integers(Arithmetic operation, Integer left, Integer right) {
  Integer result = 0;
  switch (operation) {
    case Arithmetic::Add:
      if (__builtin_add_overflow(left, right, &result)) overflow();
      return Value::integer(result);
    case Arithmetic::Subtract:
      if (__builtin_sub_overflow(left, right, &result)) overflow();
      return Value::integer(result);
    case Arithmetic::Multiply:
      if (__builtin_mul_overflow(left, right, &result)) overflow();
      return Value::integer(result);
    case Arithmetic::Divide:
      return Value::real(static_cast<double>(left) / static_cast<double>(right));
    default:
      if (right == -1)
        return compute_integers(operation == Arithmetic::Modulo ? Arithmetic::Multiply : Arithmetic::Subtract, 0, left);
      return Value::integer(operation == Arithmetic::FloorDivide ? floor_divide(left, right)
                                                                 : floor_modulo(left, right));
  }
}

Value compute_floats(Arithmetic operation, double left, double right) {
  switch (operation) {
    case Arithmetic::Add:
      return Value::real(left + right);
    case Arithmetic::Subtract:
      return Value::real(left - right);
    case Arithmetic::Multiply:
      return Value::real(left * right);
    case Arithmetic::Divide:
      return Value::real(left / right);
    case Arithmetic::FloorDivide:
      return Value::real(floor_divide(left, right));
    default:
      return Value::real(floor_modulo(left, right));
  }
}

// Digits with single underscores between them, as Python allows, without the underscores.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i - 1])) &&
                         std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (!between) return std::nullopt;
  }
  return digits;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  const char c = static_cast<char>(text[1] | 0x20);
  return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

}  // namespace

std::optional<Number> as_number(const Value& value) {
  if (const auto* number = value.as<Integer>()) return Number{false, *number, 0};
  if (const auto* number = value.as<double>()) return Number{true, 0, *number};
  if (const auto* flag = value.as<bool>()) return Number{false, *flag ? 1 : 0, 0};
  return std::nullopt;
}

std::optional<Integer> as_integer(const Value& value) {
  const auto number = as_number(value);
  if (!number || number->real) return std::nullopt;
  return number->whole;
}

int64_t index_argument(const Value& value, std::string_view what) {
  if (value.is_undefined()) raise_undefined(value);
  const auto number = as_integer(value);
  if (!number) raise("{} must be an integer, not '{}'", what, type_name(value));
  if (*number > INT64_MAX || *number < INT64_MIN) raise("{} is too large", what);
  return static_cast<int64_t>(*number);
}

Order compare_numbers(const Number& left, const Number& right) {
  if (left.real || right.real) {
    const double a = left.as_double(), b = right.as_double();
    return a < b ? Order::Below : a > b ? Order::Above : a == b ? Order::Equal : Order::None;
  }
  return left.whole < right.whole ? Order::Below : left.whole > right.whole ? Order::Above : Order::Equal;
}

std::string print_integer(Integer number, unsigned base) {
  const bool negative = number < 0;
  auto rest = negative ? -static_cast<unsigned __int128>(number) : static_cast<unsigned __int128>(number);
  std::string digits;
  do {
    digits += "0123456789abcdef"[static_cast<size_t>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string print_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.begin(), buffer.end(), number, std::chars_format::scientific).ptr;
  const std::string_view all(buffer.begin(), static_cast<size_t>(end - buffer.begin()));
  const size_t mark = all.find('e');
  const int exponent = std::atoi(all.data() + mark + 1);
  if (exponent < -4 || exponent >= 16) return std::string(all);
  const auto fixed = std::to_chars(buffer.begin(), buffer.end(), number, std::chars_format::fixed).ptr;
  std::string text(buffer.begin(), fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<Integer> parse_integer(std::string_view text, int base) {
  text = strip_spaces(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const int prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    base = prefix;
  }
  const auto digits = plain_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0) {
    base = 10;
    if ((*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
  }
  Integer result = 0;
  for (const char c : *digits) {
    if (digit_value(c) >= base) return std::nullopt;
    if (__builtin_mul_overflow(result, Integer{base}, &result)) overflow();
    if (__builtin_add_overflow(result, Integer{digit_value(c)}, &result)) overflow();
  }
  return negative ? -result : result;
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = plain_digits(strip_spaces(text));
  if (!plain || plain->empty()) return std::nullopt;
  std::string lower = *plain;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const std::string_view unsigned_part = std::string_view(lower).substr(lower[0] == '-' || lower[0] == '+');
  const bool word = unsigned_part == "inf" || unsigned_part == "infinity" || unsigned_part == "nan";
  if (!word && lower.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return std::nullopt;
  return number;
}

Integer truncate(double number) {
  if (std::isnan(number)) raise("cannot convert float NaN to integer");
  if (std::isinf(number)) raise("cannot convert float infinity to integer");
  if (std::abs(number) >= kIntegerBound) overflow();
  return static_cast<Integer>(number);
}

std::string_view symbol_of(Arithmetic operation) {
  constexpr std::array<std::string_view, 7> kSymbols = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols.at(static_cast<size_t>(operation));
}

Value compute(Arithmetic operation, const Number& left, const Number& right) {
  if (operation == Arithmetic::Power) return power(left, right);
  const bool divides = operation >= Arithmetic::Divide;
  if (divides && (right.real ? right.fraction == 0 : right.whole == 0)) raise("division by zero");
  if (left.real || right.real) return compute_floats(operation, left.as_double(), right.as_double());
  return compute_integers(operation, left.whole, right.whole);
}

Value round_number(const Number& number, int64_t digits) {
  if (!number.real) {
    if (digits >= 0) return Value::integer(number.whole);
    if (digits < -38) return Value::integer(0);
    Integer unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    const Integer low = floor_divide(number.whole, unit), rest = floor_modulo(number.whole, unit);
    const bool up = rest * 2 > unit || (rest * 2 == unit && low % 2 != 0);
    return compute_integers(Arithmetic::Multiply, low + (up ? 1 : 0), unit);
  }
  if (!std::isfinite(number.fraction) || digits > 323) return Value::real(number.fraction);
  if (digits < -308) return Value::real(std::copysign(0.0, number.fraction));
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return Value::real(std::nearbyint(number.fraction / unit) * unit);
  }
  // The printed decimal is exact, so this rounds as the binary value stands.
  return Value::real(std::strtod(fmt::format("{:.{}f}", number.fraction, static_cast<int>(digits)).c_str(), nullptr));
}

}  // namespace braid::jinja
