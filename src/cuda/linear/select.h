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
  int64_t ring_rows = 0;        // of x in one pass of the ring kernel; 0: weight or x do not suit it
  bool matrix_library = false;  // the matrix library is there
};

enum class ProductKernel { Plain, Exact, Ring, Thin, Coded, Wide };

// Most rows of x in one pass of the thin kernel.
constexpr int64_t kThinTokens = 32;
// Most rows of x for which the ring kernel, and the thin one, are as fast as the library.
constexpr int64_t kFewTokens = 16, kThinFewTokens = 8;
// Most rows of x for which passes of the ring kernel are as fast as decoding the weight for the library.
constexpr int64_t kPassTokens = 64;
// Most rows of x that the exact kernel takes a few at a time.
constexpr int64_t kExactFewTokens = 64;
// From this many rows on x is coded in E4M3 where the weight is (W8A8), which the op's bound allows; below, two codes
// keep it as near as bf16.
constexpr int64_t kCodedTokens = 256;

// Plain takes everything, slowly. Exact leaves x as it is. Ring reads each weight once, on Hopper, in passes where x
// does not fit. Thin reads each weight once for up to 32 rows; more rows mean several passes. Coded multiplies codes
// with the library, Wide bf16 numbers, for which NVFP4 weights, and FP8 ones with other blocks, are decoded first,
// which moves five times their bytes and so pays from 128 rows on.
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
  if (!e.matrix_library || e.tokens <= kThinFewTokens) return ProductKernel::Thin;
  if (e.bf16) return ProductKernel::Wide;
  if (e.exact) return ProductKernel::Thin;  // which does not round decoded weights
  const bool whole_blocks = e.block_rows == 128 && (!e.gated || e.rows % 256 == 0);
  if (whole_blocks || e.row_scales) return ProductKernel::Coded;
  return e.tokens <= 4 * kThinTokens ? ProductKernel::Thin : ProductKernel::Wide;
}

// Blocks of the ring kernel: `ranks` of them share each tile, each has a part of its columns.
struct RingGrid {
  int ranks = 1, clusters = 1;
};
// From this many rows of x on pairs win more by preparing half of them each than they lose by joining.
constexpr int64_t kRingPairTokens = 5;
// Pairs also where they leave clearly less to the last tiles. A tile has `chunks` that can be shared.
inline RingGrid ring_grid(int64_t tiles, int64_t chunks, int64_t tokens, int multiprocessors) {
  const auto grid = [&](int ranks) {
    return RingGrid{ranks, static_cast<int>(std::clamp<int64_t>(tiles, 1, multiprocessors / ranks))};
  };
  const auto longest = [&](const RingGrid& g) { return (tiles + g.clusters - 1) / g.clusters * 2 / g.ranks; };
  const RingGrid one = grid(1);
  if (multiprocessors < 2 || chunks < 2) return one;
  const RingGrid pairs = grid(2);
  return tokens >= kRingPairTokens || 16 * longest(pairs) < 15 * longest(one) ? pairs : one;
}

}  // namespace braid::cuda
