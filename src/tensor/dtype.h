// The element types that tensors and files hold, and exact conversions of single values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace braid {

enum class DType : uint8_t { F32, BF16, F16, E4M3, I8, U8, I32, I64, F64 };

constexpr int64_t size_of(DType type) {
  switch (type) {
    case DType::E4M3:
    case DType::I8:
    case DType::U8:
      return 1;
    case DType::BF16:
    case DType::F16:
      return 2;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::I64:
    case DType::F64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DType type);

// BF16: the upper half of an f32. Rounding to nearest, ties to even; NaN stays NaN.
constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);  // nearest, ties to even; overflow gives infinity

// E4M3 "fn": bias 7, no infinity, NaN at 0x7F and 0xFF, largest 448, smallest subnormal 2^-9.
float e4m3_to_float(uint8_t code);
uint8_t float_to_e4m3(float value);  // nearest, ties to even; saturates to +-448; NaN stays NaN

}  // namespace braid
