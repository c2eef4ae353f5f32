// Rotary positions of one row: cosines and sines, and the rotation of a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {

// cosines[i] = scale * cos(angle), sines[i] likewise, angle = position * frequencies[i] in f32. Reduced by multiples of
// pi / 2 in double, so that each is right to one unit in the last place of f32 for any position. The compiler
// vectorises the loop.
inline void fill_angles(const float* frequencies, int64_t count, float position, float scale, float* cosines,
                        float* sines) {
  constexpr double kTwoOverPi = 0.63661977236758134308, kNearest = 0x1.8p52;
  constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;
  for (int64_t i = 0; i < count; ++i) {
    const double angle = static_cast<double>(position * frequencies[i]);
    const double shifted = angle * kTwoOverPi + kNearest;
    const double quarters = shifted - kNearest;
    const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted);
    double r = __builtin_fma(-quarters, kHalfPi, angle);
    r = __builtin_fma(-quarters, kHalfPiRest, r);
    const double square = r * r;
    double sine = -1.0 / 39916800;
    sine = __builtin_fma(sine, square, 1.0 / 362880);
    sine = __builtin_fma(sine, square, -1.0 / 5040);
    sine = __builtin_fma(sine, square, 1.0 / 120);
    sine = __builtin_fma(sine, square, -1.0 / 6);
    sine = __builtin_fma(sine * square, r, r);
    double cosine = 1.0 / 479001600;
    cosine = __builtin_fma(cosine, square, -1.0 / 3628800);
    cosine = __builtin_fma(cosine, square, 1.0 / 40320);
    cosine = __builtin_fma(cosine, square, -1.0 / 720);
    cosine = __builtin_fma(cosine, square, 1.0 / 24);
    cosine = __builtin_fma(cosine, square, -0.5);
    cosine = __builtin_fma(cosine, square, 1.0);
    const double factor = static_cast<double>(scale);
    const double y = (quadrant & 1) != 0 ? cosine : sine, x = (quadrant & 1) != 0 ? sine : cosine;
    sines[i] = static_cast<float>((quadrant & 2) != 0 ? -y * factor : y * factor);
    cosines[i] = static_cast<float>(((quadrant + 1) & 2) != 0 ? -x * factor : x * factor);
  }
}

// Pairs (i, i + count) of `head` turned by the angles.
inline void rotate(float* head, const float* cosines, const float* sines, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i;
    const Vec x = load_as(head + i, left), y = load_as(head + count + i, left);
    const Vec cosine = load_as(cosines + i, left), sine = load_as(sines + i, left);
    store_as(head + i, fma(x, cosine, zero() - y * sine), left);
    store_as(head + count + i, fma(y, cosine, x * sine), left);
  }
}

}  // namespace braid::cpu::BRAID_ISA
