// AVX-512: from coded rows to vectors of 32-bit units, and products of units.
//
// A unit is what one lane multiplies at a time: one float, or a pair of bfloat16 values (vdpbf16ps: even and odd
// products are added to the lane one after the other in f32; denormal inputs and results count as zero).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/packing.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::avx512 {

enum class Operand : uint8_t { Float, Pair };  // what a unit is
constexpr bool kHasPairs = true;
constexpr int kParts = kLanes / 4;       // rows of a group; also 16-byte parts of a line
constexpr int kLineBytes = 16 * kParts;  // what is loaded of a row at a time
constexpr int kRegisters = 32;
constexpr int kTileRows = 6;        // rows of x that a wide product holds in registers
constexpr int kTileSlots = 4;       // slots that it fills at a time
constexpr float kFp8Factor = 1.0f;  // what decoded E4M3 values must still be multiplied by

// parts[i] = bytes [16 i, 16 i + 16) of each of four rows, one row a quarter.
struct Lines {
  Ints parts[kParts];
};
BRAID_INLINE Lines transposed_quarters(Ints a, Ints b, Ints c, Ints d) {
  const Ints ab_low = _mm512_shuffle_i32x4(a, b, 0x44), ab_high = _mm512_shuffle_i32x4(a, b, 0xEE);
  const Ints cd_low = _mm512_shuffle_i32x4(c, d, 0x44), cd_high = _mm512_shuffle_i32x4(c, d, 0xEE);
  return {{_mm512_shuffle_i32x4(ab_low, cd_low, 0x88), _mm512_shuffle_i32x4(ab_low, cd_low, 0xDD),
           _mm512_shuffle_i32x4(ab_high, cd_high, 0x88), _mm512_shuffle_i32x4(ab_high, cd_high, 0xDD)}};
}
// Keeps the compiler from loading again what several shuffles need.
BRAID_INLINE Ints load_once(const uint8_t* from) {
  Ints line = _mm512_loadu_si512(from);
  asm("" : "+v"(line));
  return line;
}
// rows[0], rows[4], rows[8], rows[12]: the rows of one group.
BRAID_INLINE Lines load_lines(const uint8_t* const* rows, int64_t at) {
  return transposed_quarters(load_once(rows[0] + at), load_once(rows[4] + at), load_once(rows[8] + at),
                             load_once(rows[12] + at));
}
BRAID_INLINE Lines load_lines_part(const uint8_t* const* rows, int64_t at, int64_t bytes) {
  const __mmask64 mask = (uint64_t{1} << bytes) - 1;
  return transposed_quarters(_mm512_maskz_loadu_epi8(mask, rows[0] + at), _mm512_maskz_loadu_epi8(mask, rows[4] + at),
                             _mm512_maskz_loadu_epi8(mask, rows[8] + at), _mm512_maskz_loadu_epi8(mask, rows[12] + at));
}

// Turns the columns of one part into vectors of units, four units a quarter, in order.
template <Coding coding, Operand operand>
struct Decoder;

template <>
struct Decoder<Coding::F32, Operand::Float> {
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const { out[0] = part; }
};

template <>
struct Decoder<Coding::BF16, Operand::Pair> {
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const { out[0] = part; }
};

template <>
struct Decoder<Coding::BF16, Operand::Float> {
  static constexpr int kVectors = 2;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    out[0] = _mm512_unpacklo_epi16(_mm512_setzero_si512(), part);
    out[1] = _mm512_unpackhi_epi16(_mm512_setzero_si512(), part);
  }
};

template <>
struct Decoder<Coding::F16, Operand::Float> {
  static constexpr int kVectors = 2;
  const Ints low = _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6), high = _mm512_setr_epi64(1, 3, 5, 7, 1, 3, 5, 7);
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    out[0] = bits_of(_mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi64(low, part))));
    out[1] = bits_of(_mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi64(high, part))));
  }
};

// The upper and lower byte of the bfloat16 number of every E4M3 magnitude.
struct Fp8Bytes {
  alignas(64) uint8_t upper[128], lower[128];
};
constexpr Fp8Bytes fp8_bytes() {
  Fp8Bytes bytes{};
  for (int code = 0; code < 128; ++code) {
    int exponent = code >> 3, fraction = code & 7;
    uint32_t bits = 0;
    if (code == 0x7F) {
      bits = 0x7FC0;
    } else if (exponent > 0) {
      bits = static_cast<uint32_t>((exponent + 120) << 7 | fraction << 4);
    } else if (fraction > 0) {
      int place = 2;
      while (fraction >> place == 0) --place;
      bits = static_cast<uint32_t>((118 + place) << 7 | (fraction << (7 - place) & 0x7F));
    }
    bytes.upper[code] = static_cast<uint8_t>(bits >> 8);
    bytes.lower[code] = static_cast<uint8_t>(bits);
  }
  return bytes;
}
constexpr Fp8Bytes kFp8Bytes = fp8_bytes();

// Looks 64 codes up at a time; the lookup ignores the sign, which is put back.
template <>
struct Decoder<Coding::Fp8, Operand::Pair> {
  static constexpr int kVectors = 2;
  const Ints upper_low = _mm512_load_si512(kFp8Bytes.upper), upper_high = _mm512_load_si512(kFp8Bytes.upper + 64);
  const Ints lower_low = _mm512_load_si512(kFp8Bytes.lower), lower_high = _mm512_load_si512(kFp8Bytes.lower + 64);
  const Ints sign = _mm512_set1_epi8(static_cast<char>(0x80));
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    const Ints upper = _mm512_permutex2var_epi8(upper_low, part, upper_high);
    const Ints lower = _mm512_permutex2var_epi8(lower_low, part, lower_high);
    const Ints marked = _mm512_ternarylogic_epi32(upper, part, sign, 0xF8);  // upper | (part & sign)
    out[0] = _mm512_unpacklo_epi8(lower, marked);
    out[1] = _mm512_unpackhi_epi8(lower, marked);
  }
};

template <>
struct Decoder<Coding::Fp8, Operand::Float> {
  static constexpr int kVectors = 4;
  Decoder<Coding::Fp8, Operand::Pair> pairs;
  Decoder<Coding::BF16, Operand::Float> floats;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    Ints both[2];
    pairs.decode(part, both);
    floats.decode(both[0], out);
    floats.decode(both[1], out + 2);
  }
};

// Transposes the 4 x 4 units of every quarter: out[l], place g of quarter q = in[g], place l of quarter q.
BRAID_INLINE void transpose_units(const Ints* in, Ints* out) {
  const Ints a = _mm512_unpacklo_epi32(in[0], in[1]), b = _mm512_unpackhi_epi32(in[0], in[1]);
  const Ints c = _mm512_unpacklo_epi32(in[2], in[3]), d = _mm512_unpackhi_epi32(in[2], in[3]);
  out[0] = _mm512_unpacklo_epi64(a, c);
  out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d);
  out[3] = _mm512_unpackhi_epi64(b, d);
}

BRAID_INLINE Ints load_units(const void* from) { return _mm512_loadu_si512(from); }
BRAID_INLINE void store_units(void* to, Ints units) { _mm512_store_si512(to, units); }
// Four units to every quarter; one unit to every lane.
BRAID_INLINE Ints four_units(const uint8_t* from) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
BRAID_INLINE Ints one_unit(const uint8_t* from) {
  int32_t unit;
  __builtin_memcpy(&unit, from, 4);
  return _mm512_set1_epi32(unit);
}

template <Operand operand>
BRAID_INLINE Vec add_product(Vec sum, Ints a, Ints b) {
  if constexpr (operand == Operand::Pair) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  } else {
    return fma(from_bits(a), from_bits(b), sum);
  }
}

// Stores 2 * kLanes values of x as operands.
template <Operand operand>
BRAID_INLINE void store_operands(uint8_t* to, Vec low, Vec high) {
  if constexpr (operand == Operand::Pair) {
    _mm512_storeu_si512(to, reinterpret_cast<Ints>(_mm512_cvtne2ps_pbh(high, low)));
  } else {
    store(reinterpret_cast<float*>(to), low);
    store(reinterpret_cast<float*>(to) + kLanes, high);
  }
}

// The same of kLanes values.
template <Operand operand>
BRAID_INLINE void store_operand(uint8_t* to, Vec values) {
  if constexpr (operand == Operand::Pair) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  } else {
    store(reinterpret_cast<float*>(to), values);
  }
}

constexpr int64_t bytes_of(Operand operand) { return operand == Operand::Pair ? 2 : 4; }

}  // namespace braid::cpu::avx512
