// Which kernel computes a product: a pure function of its extents and types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace braid::cuda {

struct ProductExtents {
  int64_t tokens = 0, rows = 0, columns = 0;  // of x, and of the weight
  bool bf16 = false, fp8 = false;             // the weight's coding; neither: another one
  int32_t block_columns = 0;                  // of FP8 scales
  bool x_bf16 = false, aligned = false;       // aligned: rows of x begin at 16 bytes
  bool exact = false;                         // x may not be rounded
  bool simple = false;                        // neither gated nor by groups
  bool library = false;                       // the matrix library is there
};

enum class ProductKernel { Plain, Exact, Thin, Wide };

// Most rows of x in one pass of the thin kernel.
constexpr int64_t kThinTokens = 32;
// Most rows of x that the exact kernel takes a few at a time.
constexpr int64_t kExactFewTokens = 256;

// Plain takes everything, slowly. Exact leaves x as it is. Thin reads each weight once for up to 32 rows; more rows
// mean several passes. Wide multiplies in bf16 with the library, FP8 decoded first, which moves five times the bytes
// and so pays from 128 rows on.
inline ProductKernel choose_product(const ProductExtents& e) {
  const bool usable_x = e.x_bf16 || !e.exact;
  if (!usable_x && e.bf16 && e.simple && e.aligned && e.columns % 16 == 0) return ProductKernel::Exact;
  if (!usable_x || (!e.bf16 && !e.fp8) || e.columns % 128 != 0) return ProductKernel::Plain;
  if (e.fp8 && e.block_columns != 128) return ProductKernel::Plain;
  const int64_t most = e.fp8 ? 4 * kThinTokens : kThinTokens;
  if (e.tokens <= most || !e.library) return ProductKernel::Thin;
  return ProductKernel::Wide;
}

}  // namespace braid::cuda
