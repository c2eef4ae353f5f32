// Vectors of eight floats: the AVX2 side of simd/vec.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#define BRAID_INLINE static inline __attribute__((always_inline))

namespace braid::cpu::avx2 {

using Vec = __m256;    // floats
using Ints = __m256i;  // 32-bit integers
using Mask = __m256;   // all bits of a lane
constexpr int kLanes = 8;

BRAID_INLINE Vec zero() { return _mm256_setzero_ps(); }
BRAID_INLINE Vec splat(float value) { return _mm256_set1_ps(value); }
BRAID_INLINE __m256i first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n > 8 ? 8 : n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

BRAID_INLINE Vec load(const float* from) { return _mm256_loadu_ps(from); }
BRAID_INLINE Vec load_part(const float* from, int64_t n) { return _mm256_maskload_ps(from, first(n)); }
BRAID_INLINE void store(float* to, Vec v) { _mm256_storeu_ps(to, v); }
BRAID_INLINE void store_part(float* to, Vec v, int64_t n) { _mm256_maskstore_ps(to, first(n), v); }

BRAID_INLINE Vec widen(__m128i halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
// Nearest even for every float, denormal ones and NaN too.
BRAID_INLINE __m128i narrow(Vec v) {
  const Ints bits = _mm256_castps_si256(v);
  const Ints odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const Ints rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
  const Ints quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const Ints nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const Ints upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
}
BRAID_INLINE Vec load_bf16(const uint16_t* from) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
BRAID_INLINE void store_bf16(uint16_t* to, Vec v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), narrow(v)); }
BRAID_INLINE Vec load_bf16_part(const uint16_t* from, int64_t n) {
  alignas(16) uint16_t part[8] = {};
  for (int64_t i = 0; i < (n > 8 ? 8 : n); ++i) part[i] = from[i];
  return widen(_mm_load_si128(reinterpret_cast<const __m128i*>(part)));
}
BRAID_INLINE void store_bf16_part(uint16_t* to, Vec v, int64_t n) {
  alignas(16) uint16_t part[8];
  _mm_store_si128(reinterpret_cast<__m128i*>(part), narrow(v));
  for (int64_t i = 0; i < (n > 8 ? 8 : n); ++i) to[i] = part[i];
}

BRAID_INLINE Vec load_f16_part(const uint16_t* from, int64_t n) {
  alignas(16) uint16_t part[8] = {};
  for (int64_t i = 0; i < (n > 8 ? 8 : n); ++i) part[i] = from[i];
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(part)));
}
// E4M3 is moved into the place of an F16 number 2^8 times as small; the code of NaN needs a look of its own.
BRAID_INLINE Vec e4m3_to_floats(__m128i codes) {  // sign-extended to 16 bits
  const __m128i halves = _mm_and_si128(_mm_slli_epi16(codes, 7), _mm_set1_epi16(static_cast<short>(0xBF80)));
  const __m128i nan = _mm_cmpeq_epi16(_mm_slli_epi16(codes, 9), _mm_set1_epi16(static_cast<short>(0xFE00)));
  const Vec values = _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0f));
  return _mm256_or_ps(values, _mm256_castsi256_ps(_mm256_cvtepi16_epi32(nan)));  // all bits set is a NaN
}
BRAID_INLINE Vec load_e4m3_part(const uint8_t* from, int64_t n) {
  alignas(8) uint8_t part[8] = {};
  for (int64_t i = 0; i < (n > 8 ? 8 : n); ++i) part[i] = from[i];
  return e4m3_to_floats(_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(part))));
}

BRAID_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }    // a * b + c
BRAID_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
BRAID_INLINE Vec minimum(Vec a, Vec b) { return _mm256_min_ps(a, b); }            // b where either is NaN
BRAID_INLINE Vec maximum(Vec a, Vec b) { return _mm256_max_ps(a, b); }            // b where either is NaN
BRAID_INLINE Vec absolute(Vec v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
BRAID_INLINE Vec square_root(Vec v) { return _mm256_sqrt_ps(v); }  // correctly rounded
BRAID_INLINE Vec nearest(Vec v) { return _mm256_round_ps(v, 0x08); }

BRAID_INLINE Mask less(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
BRAID_INLINE Mask equal(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
BRAID_INLINE Vec select(Mask mask, Vec yes, Vec no) { return _mm256_blendv_ps(no, yes, mask); }
BRAID_INLINE bool any(Mask mask) { return _mm256_movemask_ps(mask) != 0; }

BRAID_INLINE Ints to_ints(Vec v) { return _mm256_cvtps_epi32(v); }  // to nearest
BRAID_INLINE Vec to_floats(Ints v) { return _mm256_cvtepi32_ps(v); }
BRAID_INLINE Ints bits_of(Vec v) { return _mm256_castps_si256(v); }
BRAID_INLINE Vec from_bits(Ints v) { return _mm256_castsi256_ps(v); }
BRAID_INLINE Ints splat_int(int32_t value) { return _mm256_set1_epi32(value); }
BRAID_INLINE Ints add_ints(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
BRAID_INLINE Ints and_ints(Ints a, Ints b) { return _mm256_and_si256(a, b); }
BRAID_INLINE Ints or_ints(Ints a, Ints b) { return _mm256_or_si256(a, b); }
BRAID_INLINE Ints xor_ints(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
template <int bits>
BRAID_INLINE Ints shift_left(Ints v) {
  return _mm256_slli_epi32(v, bits);
}
template <int bits>
BRAID_INLINE Ints shift_right(Ints v) {  // of the sign, too
  return _mm256_srai_epi32(v, bits);
}

// v * 2^n for integral n in [-252, 254], right down to denormals and up to infinity.
BRAID_INLINE Vec scale_by_power(Vec v, Vec n) {
  const Ints whole = to_ints(n), half = shift_right<1>(whole), bias = splat_int(127);
  const Ints rest = _mm256_sub_epi32(whole, half);
  const Vec scaled = v * from_bits(shift_left<23>(add_ints(half, bias)));
  return scaled * from_bits(shift_left<23>(add_ints(rest, bias)));
}

// x = quadrant * pi / 2 + what is returned, in [-pi/4, pi/4]; |x| < 2^31.
BRAID_INLINE __m256d reduce_half(__m256d x, __m128i& quadrant) {
  const __m256d n = _mm256_round_pd(_mm256_mul_pd(x, _mm256_set1_pd(0.63661977236758134308)), 0x08);
  quadrant = _mm256_cvtpd_epi32(n);
  const __m256d r = _mm256_fnmadd_pd(n, _mm256_set1_pd(0x1.921fb54442d18p0), x);
  return _mm256_fnmadd_pd(n, _mm256_set1_pd(0x1.1a62633145c07p-54), r);
}
BRAID_INLINE Vec reduce_quadrant(Vec x, Ints& quadrant) {
  __m128i low_quadrant, high_quadrant;
  const __m128 low = _mm256_cvtpd_ps(reduce_half(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), low_quadrant));
  const __m128 high = _mm256_cvtpd_ps(reduce_half(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), high_quadrant));
  quadrant = _mm256_inserti128_si256(_mm256_castsi128_si256(low_quadrant), high_quadrant, 1);
  return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}

// Sum of all lanes, always in the same order.
BRAID_INLINE float sum(Vec v) {
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
BRAID_INLINE float largest(Vec v) {
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

}  // namespace braid::cpu::avx2
