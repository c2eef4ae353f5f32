// A tile of a float matrix product held in registers: a few rows by two vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {

// As many rows as keep the sums, two vectors of the right operand and one of the left in registers.
constexpr int kTileHeight = kLanes == 16 ? 8 : 4;
constexpr int kTileWidth = 2 * kLanes;

// Element (i, k) is data[i * row + k * step].
struct LeftOperand {
  const float* data;
  int64_t row, step;
};

// Row k is the kTileWidth numbers (f32 or bf16) at data + k * stride, of which the first `columns` exist.
template <typename T>
struct RightOperand {
  const T* data;
  int64_t stride;
  int64_t columns = kTileWidth;
};

template <int kRows>
struct Tile {
  Vec at[kRows][2];

  void clear() {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) at[i][0] = at[i][1] = zero();
  }
  // Adds the product of `left` (kRows x count) and `right`, one fused multiply-add per k in ascending order: the bits
  // of an element do not depend on kRows.
  template <typename T>
  [[gnu::always_inline]] void add_product(LeftOperand left, RightOperand<T> right, int64_t count) {
    right.columns >= kTileWidth ? add<true>(left, right, count) : add<false>(left, right, count);
  }
  template <bool kWhole, typename T>
  [[gnu::always_inline]] void add(LeftOperand left, RightOperand<T> right, int64_t count) {
    const T* b = right.data;
    const float* a = left.data;
    for (int64_t k = 0; k < count; ++k, a += left.step, b += right.stride) {
      const Vec b0 = kWhole ? load_as(b) : load_as(b, right.columns);
      const Vec b1 = kWhole                   ? load_as(b + kLanes)
                     : right.columns > kLanes ? load_as(b + kLanes, right.columns - kLanes)
                                              : zero();
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Vec factor = splat(a[i * left.row]);
        at[i][0] = fma(factor, b0, at[i][0]);
        at[i][1] = fma(factor, b1, at[i][1]);
      }
    }
  }
  void load_from(const float* from, int64_t stride) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) at[i][0] = load(from + i * stride), at[i][1] = load(from + i * stride + kLanes);
  }
  void store_to(float* out, int64_t stride) const {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      store(out + i * stride, at[i][0]);
      store(out + i * stride + kLanes, at[i][1]);
    }
  }
};

}  // namespace braid::cpu::BRAID_ISA
