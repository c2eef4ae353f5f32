// Transposing a square block of 32-bit numbers in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {

// Exchanges the off-diagonal halves of every 2 kStep x 2 kStep block.
template <int kStep>
BRAID_INLINE void exchange_halves(Vec (&rows)[kLanes]) {
  typedef int32_t Indices __attribute__((vector_size(4 * kLanes)));
  Indices left, right;  // below kLanes: a lane of the upper row; from there on: of the lower
#pragma GCC unroll 16
  for (int lane = 0; lane < kLanes; ++lane) {
    left[lane] = (lane & kStep) == 0 ? lane : kLanes + lane - kStep;
    right[lane] = (lane & kStep) == 0 ? lane + kStep : kLanes + lane;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStep) != 0) continue;
    const Vec upper = rows[i], lower = rows[i + kStep];
    rows[i] = __builtin_shuffle(upper, lower, left);
    rows[i + kStep] = __builtin_shuffle(upper, lower, right);
  }
}

// rows[i] lane j and rows[j] lane i change places.
BRAID_INLINE void transpose(Vec (&rows)[kLanes]) {
  exchange_halves<1>(rows);
  exchange_halves<2>(rows);
  exchange_halves<4>(rows);
  if constexpr (kLanes == 16) exchange_halves<kLanes / 2>(rows);
}

// The first `count` of 2 * kLanes numbers of 16 bits, two a lane; the others are zero.
BRAID_INLINE Vec load_pairs(const uint16_t* from, int64_t count) {
  if (count >= 2 * kLanes) return load(reinterpret_cast<const float*>(from));
  alignas(64) uint16_t part[2 * kLanes] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  return load(reinterpret_cast<const float*>(part));
}

}  // namespace braid::cpu::BRAID_ISA
