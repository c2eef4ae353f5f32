// Products with weights as kernels take them: plain ones, and products by groups of rows with one matrix each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "cuda/common/codes.h"
#include "cuda/common/context.h"
#include "cuda/common/view.h"

namespace braid::cuda {

// Up to kThinTokens rows that share a matrix.
struct Group {
  int32_t matrix = 0;
  int32_t first = 0, count = 0;  // in the list of slots
};

// out[slot] = x[slot div divide] * W^T for the slots of every group, W the group's matrix; with `gated` out =
// silu(first half) * second half. Without groups, slots are the rows of x, and the matrix is 0.
struct Product {
  View out, x;
  Codes codes;
  bool gated = false;
  bool exact = false;
  int64_t slots = 0;
  const int32_t* list = nullptr;  // slots by group
  const Group* groups = nullptr;  // on the device
  const int32_t* group_count = nullptr;
  int64_t most_groups = 0;
  int32_t divide = 1;
  float* stream = nullptr;  // of one row that the ring kernel takes: what `out` is added to as well
  int64_t outputs() const { return gated ? codes.rows / 2 : codes.rows; }
};

// Any shape and type.
void multiply_plain(Context& context, const Product& product);
// Up to four products of one x, in one launch: x f32 with rows at 16 bytes, columns a multiple of 16, weights bf16, no
// groups, not gated.
void multiply_exact(Context& context, std::span<const Product> products);
// x with rows at 16 bytes, columns a multiple of 128, weights bf16 or FP8 with blocks of 128 columns.
void multiply_thin(Context& context, const Product& product);
// x with rows at 16 bytes, weights int8, or FP8 with a scale a row or in blocks of 128 x 128 (gated: of which none
// holds rows of both), columns a multiple of 16, no groups; needs the matrix library.
void multiply_coded(Context& context, const Product& product);
// x bf16 with rows at 16 bytes, no groups; needs the matrix library.
void multiply_wide(Context& context, const Product& product);
// Chooses among them; makes x bf16 first where the kernel wants that.
void multiply(Context& context, Product product);

// Rows of x as codes (coding.h): [pieces, tokens, columns], and scales [columns / 128, pieces, tokens] or, for weights
// with a scale a row, [pieces, tokens]. Tokens are
// rounded up so that pieces * tokens is a multiple of 4; what lies behind the rows of x repeats its last row.
struct CodedRows {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  int64_t tokens = 0;
  int pieces = 1;
};
// In work memory. x has its rows at 16 bytes and columns in blocks of 128.
CodedRows code_rows(Context& context, const View& x, int pieces);

// A bf16 copy of x in work memory, rows behind each other.
View rounded_rows(Context& context, const View& x);

}  // namespace braid::cuda
