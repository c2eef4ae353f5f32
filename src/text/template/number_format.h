// Printing one number, string or character with width, sign, precision and grouping, as both formatting forms need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "text/template/numbers.h"

namespace braid::jinja {

struct FieldStyle {
  std::string fill = " ";
  char align = 0;   // '<' '>' '^' '=', 0: by the kind of value
  char sign = '-';  // '-' '+' ' '
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  int64_t precision = -1;
  char type = 0;
};

// sign and digits are kept apart for '=' alignment.
std::string pad_number(std::string_view sign, std::string_view digits, const FieldStyle& style);
std::string pad_text(std::string_view text, const FieldStyle& style);
// Types d b o x X c n and 0.
std::string format_integer(Integer number, const FieldStyle& style);
// Types e E f F g G % n and 0.
std::string format_float(double number, const FieldStyle& style);

}  // namespace braid::jinja
