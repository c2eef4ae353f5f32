// AVX2: from coded rows to vectors of 32-bit units, and products of units. A unit is one float.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/packing.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::avx2 {

enum class Operand : uint8_t { Float, Pair };  // what a unit is
constexpr bool kHasPairs = false;
constexpr int kParts = kLanes / 4;       // rows of a group; also 16-byte parts of a line
constexpr int kLineBytes = 16 * kParts;  // what is loaded of a row at a time
constexpr int kRegisters = 16;
constexpr int kTileRows = 8;          // rows of x that a wide product holds in registers
constexpr int kTileSlots = 1;         // slots that it fills at a time
constexpr float kFp8Factor = 256.0f;  // what decoded E4M3 values must still be multiplied by

// parts[i] = bytes [16 i, 16 i + 16) of each of two rows, one row a half.
struct Lines {
  Ints parts[kParts];
};
BRAID_INLINE Lines transposed_halves(Ints a, Ints b) {
  return {{_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)}};
}
BRAID_INLINE Ints load_units(const void* from) { return _mm256_loadu_si256(static_cast<const Ints*>(from)); }
// rows[0], rows[4]: the rows of one group.
BRAID_INLINE Lines load_lines(const uint8_t* const* rows, int64_t at) {
  return transposed_halves(load_units(rows[0] + at), load_units(rows[4] + at));
}
BRAID_INLINE Lines load_lines_part(const uint8_t* const* rows, int64_t at, int64_t bytes) {
  alignas(32) uint8_t a[32] = {}, b[32] = {};
  for (int64_t i = 0; i < bytes; ++i) a[i] = rows[0][at + i], b[i] = rows[4][at + i];
  return transposed_halves(load_units(a), load_units(b));
}

// Turns the columns of one part into vectors of units, four units a half, in order.
template <Coding coding, Operand operand>
struct Decoder;

template <>
struct Decoder<Coding::F32, Operand::Float> {
  static constexpr int kVectors = 1;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const { out[0] = part; }
};

template <>
struct Decoder<Coding::BF16, Operand::Float> {
  static constexpr int kVectors = 2;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    out[0] = _mm256_unpacklo_epi16(_mm256_setzero_si256(), part);
    out[1] = _mm256_unpackhi_epi16(_mm256_setzero_si256(), part);
  }
};

template <>
struct Decoder<Coding::F16, Operand::Float> {
  static constexpr int kVectors = 2;
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    const Ints sorted = _mm256_permute4x64_epi64(part, 0xD8);  // lower halves of both rows, then the upper ones
    out[0] = bits_of(_mm256_cvtph_ps(_mm256_castsi256_si128(sorted)));
    out[1] = bits_of(_mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1)));
  }
};

// E4M3 moves into the place of an F16 number 2^8 times as small, denormal ones too; the code of NaN is made one.
template <>
struct Decoder<Coding::Fp8, Operand::Float> {
  static constexpr int kVectors = 4;
  Decoder<Coding::F16, Operand::Float> halves;
  [[gnu::always_inline]] Ints to_halves(Ints codes) const {  // in the upper byte of 16 bits
    const Ints magnitude = _mm256_set1_epi16(0x7F00);
    const Ints nan = _mm256_cmpeq_epi16(and_ints(codes, magnitude), magnitude);
    return or_ints(and_ints(_mm256_srai_epi16(codes, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF))), nan);
  }
  [[gnu::always_inline]] void decode(Ints part, Ints* out) const {
    halves.decode(to_halves(_mm256_unpacklo_epi8(_mm256_setzero_si256(), part)), out);
    halves.decode(to_halves(_mm256_unpackhi_epi8(_mm256_setzero_si256(), part)), out + 2);
  }
};

// Transposes the 4 x 4 units of every half: out[l], place g of half q = in[g], place l of half q.
BRAID_INLINE void transpose_units(const Ints* in, Ints* out) {
  const Ints a = _mm256_unpacklo_epi32(in[0], in[1]), b = _mm256_unpackhi_epi32(in[0], in[1]);
  const Ints c = _mm256_unpacklo_epi32(in[2], in[3]), d = _mm256_unpackhi_epi32(in[2], in[3]);
  out[0] = _mm256_unpacklo_epi64(a, c);
  out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d);
  out[3] = _mm256_unpackhi_epi64(b, d);
}

BRAID_INLINE void store_units(void* to, Ints units) { _mm256_store_si256(static_cast<Ints*>(to), units); }
// Four units to both halves; one unit to every lane.
BRAID_INLINE Ints four_units(const uint8_t* from) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
BRAID_INLINE Ints one_unit(const uint8_t* from) {
  return bits_of(_mm256_broadcast_ss(reinterpret_cast<const float*>(from)));
}

template <Operand operand>
BRAID_INLINE Vec add_product(Vec sum, Ints a, Ints b) {
  return fma(from_bits(a), from_bits(b), sum);
}

// Stores 2 * kLanes values of x as operands.
template <Operand operand>
BRAID_INLINE void store_operands(uint8_t* to, Vec low, Vec high) {
  store(reinterpret_cast<float*>(to), low);
  store(reinterpret_cast<float*>(to) + kLanes, high);
}

// The same of kLanes values.
template <Operand operand>
BRAID_INLINE void store_operand(uint8_t* to, Vec values) {
  store(reinterpret_cast<float*>(to), values);
}

constexpr int64_t bytes_of(Operand) { return 4; }

}  // namespace braid::cpu::avx2
