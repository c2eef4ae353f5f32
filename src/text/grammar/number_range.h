// Expressions for the decimal numbers between two bounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/productions.h"

namespace braid {

// A decimal number as digits: (-) whole.fraction.
struct Decimal {
  bool negative = false;
  std::string whole = "0";  // without leading zeros
  std::string fraction;     // without trailing zeros
};

// Of a JSON number's text. Nothing where it has more than 40 digits before or behind the point.
std::optional<Decimal> parse_decimal(std::string_view text);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<NumberBound> least, most;
  uint32_t multiple_of = 1;           // of integers, at most kMostMultiple
  uint32_t fraction = kMostFraction;  // digits behind the point at most; 0: integers

  static constexpr uint32_t kMostFraction = 24, kMostWhole = 21, kMostMultiple = 1000;
};

// Numbers in plain notation, without an exponent, with at most kMostWhole digits before the point: what JSON.stringify
// writes so. Zero has no sign where only integers are asked for.
ExpressionId numbers_in(const NumberRange& range, Productions& productions);

}  // namespace braid
