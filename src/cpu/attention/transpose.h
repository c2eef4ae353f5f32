// Transposing a square block of 32-bit numbers in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {

#ifdef __AVX512F__

BRAID_INLINE __m512 pair_low(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
BRAID_INLINE __m512 pair_high(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// rows[i] lane j and rows[j] lane i change places.
BRAID_INLINE void transpose(Vec (&rows)[kLanes]) {
  Vec part[kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const Vec a = _mm512_unpacklo_ps(rows[i], rows[i + 1]), b = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    const Vec c = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]), d = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
    part[i] = pair_low(a, c), part[i + 1] = pair_high(a, c);
    part[i + 2] = pair_low(b, d), part[i + 3] = pair_high(b, d);
  }
  // part[4 r + c], quarter q: column 4 q + c of rows 4 r .. 4 r + 3
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Vec even_low = _mm512_shuffle_f32x4(part[c], part[4 + c], 0x88);
    const Vec odd_low = _mm512_shuffle_f32x4(part[c], part[4 + c], 0xDD);
    const Vec even_high = _mm512_shuffle_f32x4(part[8 + c], part[12 + c], 0x88);
    const Vec odd_high = _mm512_shuffle_f32x4(part[8 + c], part[12 + c], 0xDD);
    rows[c] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
    rows[8 + c] = _mm512_shuffle_f32x4(even_low, even_high, 0xDD);
    rows[4 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
    rows[12 + c] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xDD);
  }
}

#else

BRAID_INLINE __m256 pair_low(__m256 a, __m256 b) {
  return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
BRAID_INLINE __m256 pair_high(__m256 a, __m256 b) {
  return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}

// rows[i] lane j and rows[j] lane i change places.
BRAID_INLINE void transpose(Vec (&rows)[kLanes]) {
  Vec part[kLanes];
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    const Vec a = _mm256_unpacklo_ps(rows[i], rows[i + 1]), b = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    const Vec c = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]), d = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
    part[i] = pair_low(a, c), part[i + 1] = pair_high(a, c);
    part[i + 2] = pair_low(b, d), part[i + 3] = pair_high(b, d);
  }
  // part[4 r + c], half h: column 4 h + c of rows 4 r .. 4 r + 3
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    rows[c] = _mm256_permute2f128_ps(part[c], part[4 + c], 0x20);
    rows[4 + c] = _mm256_permute2f128_ps(part[c], part[4 + c], 0x31);
  }
}

#endif

// The first `count` of 2 * kLanes numbers of 16 bits, two a lane; the others are zero.
BRAID_INLINE Vec load_pairs(const uint16_t* from, int64_t count) {
  if (count >= 2 * kLanes) return load(reinterpret_cast<const float*>(from));
  alignas(64) uint16_t part[2 * kLanes] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  return load(reinterpret_cast<const float*>(part));
}

}  // namespace braid::cpu::BRAID_ISA
