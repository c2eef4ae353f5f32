// Which kernel computes a product: a pure function of its extents and types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace braid::cuda {

struct ProductExtents {
  int64_t tokens = 0, rows = 0, columns = 0;                    // of x, and of the weight
  bool bf16 = false, fp8 = false, int8 = false, nvfp4 = false;  // the weight's coding; none: another one
  bool row_scales = false;                                      // one scale a row
  int32_t block_rows = 0, block_columns = 0;                    // of FP8 scales
  bool x_bf16 = false, aligned = false;                         // aligned: rows of x begin at 16 bytes
  bool exact = false;                                           // x may not be rounded
  bool gated = false;                                           // the weight holds the rows of two matrices
  bool simple = false;                                          // neither gated nor by groups
  bool streams = false;                                         // the weight and x suit the streaming kernel
  int64_t ring_rows = 0;        // of x in one pass of the streaming kernel; 0: weight or x do not suit it
  bool matrix_library = false;  // the matrix library is there
};

enum class ProductKernel { Plain, Exact, Stream, Ring, Thin, Coded, Wide };

// Most rows of x in one pass of the thin kernel.
constexpr int64_t kThinTokens = 32;
// Most rows of x for which the streaming kernel, and the thin one, are as fast as the library.
constexpr int64_t kFewTokens = 16, kThinFewTokens = 8;
// Most rows of x for which passes of the streaming kernel are as fast as decoding the weight for the library.
constexpr int64_t kPassTokens = 64;
// Most rows of x that the exact kernel takes a few at a time.
constexpr int64_t kExactFewTokens = 64;
// From this many rows on x is coded in E4M3 where the weight is (W8A8), which the op's bound allows; below, two codes
// keep it as near as bf16.
constexpr int64_t kCodedTokens = 256;

// Plain takes everything, slowly. Exact leaves x as it is. Stream reads each weight once, on Hopper; Ring does where
// codes are NVFP4 or have a scale a row, in passes where x does not fit. Thin reads each weight once for up to 32 rows;
// more rows mean several passes. Coded multiplies codes with the library, Wide bf16 numbers, for which NVFP4 weights,
// and FP8 ones with other blocks, are decoded first, which moves five times their bytes and so pays from 128 rows on.
inline ProductKernel choose_product(const ProductExtents& e) {
  const bool usable_x = e.x_bf16 || !e.exact;
  if (e.ring_rows > 0 && !e.exact) {
    const int64_t passes = e.nvfp4 || !e.matrix_library ? kPassTokens : kFewTokens;
    if (e.tokens <= passes) return ProductKernel::Ring;
  }
  if (e.matrix_library && !e.exact && e.columns % 16 == 0) {
    if (e.int8) return ProductKernel::Coded;
    if (e.nvfp4) return ProductKernel::Wide;
  }
  if (!usable_x && e.bf16 && e.simple && e.aligned && e.columns % 16 == 0) return ProductKernel::Exact;
  if (!usable_x || (!e.bf16 && !e.fp8) || e.columns % 128 != 0) return ProductKernel::Plain;
  if (e.fp8 && e.block_columns != 128) return ProductKernel::Plain;
  if (e.streams && e.tokens <= kFewTokens && !e.exact) return ProductKernel::Stream;
  if (!e.matrix_library || e.tokens <= kThinFewTokens) return ProductKernel::Thin;
  if (e.bf16) return ProductKernel::Wide;
  if (e.exact) return ProductKernel::Thin;  // which does not round decoded weights
  const bool whole_blocks = e.block_rows == 128 && (!e.gated || e.rows % 256 == 0);
  if (whole_blocks || e.row_scales) return ProductKernel::Coded;
  return e.tokens <= 4 * kThinTokens ? ProductKernel::Thin : ProductKernel::Wide;
}

}  // namespace braid::cuda
