// What an op should write, and how far from it an executor may be: every op evaluated with running error bounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace braid {

// How exactly an executor computes. Outputs and state are rounded to their own types in any case.
struct Precision {
  double unit = 0x1p-24;  // roundoff of sums and functions: f32
  double operand = 0;     // relative rounding of each operand of a product with a weight: 2^-8 for bf16
  double step = 0;        // error of an input of such a product as a share of its row's largest: 1/254 for int8
  double attention = 0;   // relative rounding of queries, and of shares before they meet the values: 2^-8 for bf16
  // Products of this many rows or more with FP8 weights in blocks of 128 x 128 code their inputs in E4M3 (LIN-17).
  int64_t coded_rows = INT64_MAX;
};
inline constexpr Precision kExactPrecision{.unit = 0x1p-52};  // the reference
inline constexpr Precision kF32Precision{};
inline constexpr Precision kBf16Precision{.operand = 0x1p-8};
// Inputs of products with FP8 weights are two codes of four bits each, the second with steps of 2^-23 of the largest.
inline constexpr Precision kTensorCorePrecision{
    .operand = 0x1p-8, .step = 0x1p-22, .attention = 0x1p-8, .coded_rows = 256};

// One piece of memory that an op writes: elements in row-major order of `where`.
struct Expected {
  std::string argument;
  Tensor where;
  std::vector<double> values;
  std::vector<double> errors;
  // Where rounding may decide (a draw at a border): per element, what else is right.
  std::vector<std::vector<double>> others;
};

// Call it before the op runs, on host memory; weights need segments that decode_row reads. Reads the op's inputs,
// writes nothing. An op writes exactly the pieces returned.
std::vector<Expected> expected_of(const Op& op, const Precision& precision);

// How `where` now differs: the largest error as a share of its bound, and a sentence about that element when above 1.
struct Comparison {
  double share = 0;
  std::optional<std::string> failure;
};
Comparison compare(const Expected& expected);

}  // namespace braid
