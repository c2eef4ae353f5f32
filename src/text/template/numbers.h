// Numbers of templates: reading, printing and the arithmetic of Python's int and float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/template/value.h"

namespace braid::jinja {

// A bool, int or float seen as a number.
struct Number {
  bool real;
  Integer whole;    // where not real
  double fraction;  // where real
  double as_double() const { return real ? fraction : static_cast<double>(whole); }
};

enum class Order { Below, Equal, Above, None };  // None: one is nan

std::optional<Number> as_number(const Value& value);
// The number of an int or bool.
std::optional<Integer> as_integer(const Value& value);
// An index or count argument; a Fault that names `what` where it is no int or does not fit.
int64_t index_argument(const Value& value, std::string_view what);
Order compare_numbers(const Number& left, const Number& right);

// Python's repr(): shortest digits that read back the same.
std::string print_float(double number);
std::string print_integer(Integer number, unsigned base = 10);

// int(text, base) and float(text); nothing where Python raises ValueError.
std::optional<Integer> parse_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

// int(number): towards zero. A Fault for nan, infinities and what does not fit.
Integer truncate(double number);

enum class Arithmetic { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
std::string_view symbol_of(Arithmetic operation);
// A Fault on division by zero and overflow.
Value compute(Arithmetic operation, const Number& left, const Number& right);
// round(number, digits), half to even.
Value round_number(const Number& number, int64_t digits);

}  // namespace braid::jinja
