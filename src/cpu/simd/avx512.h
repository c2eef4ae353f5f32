// Vectors of sixteen floats: the AVX-512 side of simd/vec.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#define BRAID_INLINE static inline __attribute__((always_inline))

namespace braid::cpu::avx512 {

using Vec = __m512;    // floats
using Ints = __m512i;  // 32-bit integers
using Mask = __mmask16;
constexpr int kLanes = 16;

BRAID_INLINE Vec zero() { return _mm512_setzero_ps(); }
BRAID_INLINE Vec splat(float value) { return _mm512_set1_ps(value); }
BRAID_INLINE Mask first(int64_t n) { return static_cast<Mask>(n >= kLanes ? 0xFFFF : (1u << n) - 1); }

BRAID_INLINE Vec load(const float* from) { return _mm512_loadu_ps(from); }
BRAID_INLINE Vec load_part(const float* from, int64_t n) { return _mm512_maskz_loadu_ps(first(n), from); }
BRAID_INLINE void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
BRAID_INLINE void store_part(float* to, Vec v, int64_t n) { _mm512_mask_storeu_ps(to, first(n), v); }

BRAID_INLINE Vec widen(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
// Nearest even for every float, denormal ones and NaN too (the BF16 instruction flushes denormals).
BRAID_INLINE __m256i narrow(Vec v) {
  const Ints bits = _mm512_castps_si512(v);
  const Ints odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const Ints rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  const Ints quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const Mask nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
}
BRAID_INLINE Vec load_bf16(const uint16_t* from) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
BRAID_INLINE Vec load_bf16_part(const uint16_t* from, int64_t n) {
  return widen(_mm256_maskz_loadu_epi16(first(n), from));
}
BRAID_INLINE void store_bf16(uint16_t* to, Vec v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(v)); }
BRAID_INLINE void store_bf16_part(uint16_t* to, Vec v, int64_t n) { _mm256_mask_storeu_epi16(to, first(n), narrow(v)); }

BRAID_INLINE Vec load_f16_part(const uint16_t* from, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), from));
}
// E4M3 is moved into the place of an F16 number 2^8 times as small; the code of NaN needs a look of its own.
BRAID_INLINE Vec load_e4m3_part(const uint8_t* from, int64_t n) {
  const __m256i codes = _mm256_cvtepi8_epi16(_mm_maskz_loadu_epi8(first(n), from));
  const __m256i halves = _mm256_and_si256(_mm256_slli_epi16(codes, 7), _mm256_set1_epi16(static_cast<short>(0xBF80)));
  const __mmask16 nan =
      _mm256_cmpeq_epi16_mask(_mm256_slli_epi16(codes, 9), _mm256_set1_epi16(static_cast<short>(0xFE00)));
  const Vec values = _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0f));
  return _mm512_mask_mov_ps(values, nan, _mm512_set1_ps(__builtin_nanf("")));
}

BRAID_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }    // a * b + c
BRAID_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
BRAID_INLINE Vec minimum(Vec a, Vec b) { return _mm512_min_ps(a, b); }            // b where either is NaN
BRAID_INLINE Vec maximum(Vec a, Vec b) { return _mm512_max_ps(a, b); }            // b where either is NaN
BRAID_INLINE Vec absolute(Vec v) { return _mm512_abs_ps(v); }
BRAID_INLINE Vec square_root(Vec v) { return _mm512_sqrt_ps(v); }  // correctly rounded
BRAID_INLINE Vec nearest(Vec v) { return _mm512_roundscale_ps(v, 0x08); }

BRAID_INLINE Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
BRAID_INLINE Mask equal(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
BRAID_INLINE Vec select(Mask mask, Vec yes, Vec no) { return _mm512_mask_mov_ps(no, mask, yes); }
BRAID_INLINE bool any(Mask mask) { return mask != 0; }

BRAID_INLINE Ints to_ints(Vec v) { return _mm512_cvtps_epi32(v); }  // to nearest
BRAID_INLINE Vec to_floats(Ints v) { return _mm512_cvtepi32_ps(v); }
BRAID_INLINE Ints bits_of(Vec v) { return _mm512_castps_si512(v); }
BRAID_INLINE Vec from_bits(Ints v) { return _mm512_castsi512_ps(v); }
BRAID_INLINE Ints splat_int(int32_t value) { return _mm512_set1_epi32(value); }
BRAID_INLINE Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
BRAID_INLINE Ints and_ints(Ints a, Ints b) { return _mm512_and_si512(a, b); }
BRAID_INLINE Ints or_ints(Ints a, Ints b) { return _mm512_or_si512(a, b); }
BRAID_INLINE Ints xor_ints(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
template <int bits>
BRAID_INLINE Ints shift_left(Ints v) {
  return _mm512_slli_epi32(v, bits);
}
template <int bits>
BRAID_INLINE Ints shift_right(Ints v) {  // of the sign, too
  return _mm512_srai_epi32(v, bits);
}

// v * 2^n for integral n, right down to denormals and up to infinity.
BRAID_INLINE Vec scale_by_power(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }

// x = quadrant * pi / 2 + what is returned, in [-pi/4, pi/4]; |x| < 2^31.
BRAID_INLINE __m512d reduce_half(__m512d x, __m256i& quadrant) {
  const __m512d n = _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(0.63661977236758134308)), 0x08);
  quadrant = _mm512_cvtpd_epi32(n);
  const __m512d r = _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.921fb54442d18p0), x);
  return _mm512_fnmadd_pd(n, _mm512_set1_pd(0x1.1a62633145c07p-54), r);
}
BRAID_INLINE Vec reduce_quadrant(Vec x, Ints& quadrant) {
  __m256i low_quadrant, high_quadrant;
  const __m256 low = _mm512_cvtpd_ps(reduce_half(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), low_quadrant));
  const __m256 high = _mm512_cvtpd_ps(reduce_half(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), high_quadrant));
  quadrant = _mm512_inserti64x4(_mm512_castsi256_si512(low_quadrant), high_quadrant, 1);
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

// Sum of all lanes, always in the same order.
BRAID_INLINE float sum(Vec v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
BRAID_INLINE float largest(Vec v) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

}  // namespace braid::cpu::avx512
