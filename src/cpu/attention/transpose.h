// Transposing a square block of 32-bit numbers in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {

// The lane of (upper, lower) that lane `lane` of the new upper (or lower) row comes from; from kLanes on: of the lower
// row.
template <int kStep, bool kLower>
constexpr int source_lane(int lane) {
  const bool first = (lane & kStep) == 0;
  if (kLower) return first ? lane + kStep : kLanes + lane;
  return first ? lane : kLanes + lane - kStep;
}

template <int kStep, bool kLower, int... kLane>
BRAID_INLINE Vec exchanged(Vec upper, Vec lower, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(upper, lower, source_lane<kStep, kLower>(kLane)...);
}

// Exchanges the off-diagonal halves of every 2 kStep x 2 kStep block.
template <int kStep>
BRAID_INLINE void exchange_halves(Vec (&rows)[kLanes]) {
  constexpr std::make_integer_sequence<int, kLanes> kAll{};
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & kStep) != 0) continue;
    const Vec upper = rows[i], lower = rows[i + kStep];
    rows[i] = exchanged<kStep, false>(upper, lower, kAll);
    rows[i + kStep] = exchanged<kStep, true>(upper, lower, kAll);
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
