// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <cmath>

namespace braid {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::F32:
      return "f32";
    case DType::BF16:
      return "bf16";
    case DType::F16:
      return "f16";
    case DType::E4M3:
      return "e4m3";
    case DType::I8:
      return "i8";
    case DType::U8:
      return "u8";
    case DType::I32:
      return "i32";
    case DType::I64:
      return "i64";
    case DType::F64:
      return "f64";
  }
  return "?";
}

namespace {

// Splits a small float format into its value: `mantissa_bits` of fraction, exponent `bias`, no special codes.
float decode_small(uint32_t magnitude, int mantissa_bits, int bias) {
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const uint32_t fraction = magnitude & ((1u << mantissa_bits) - 1);
  const float scaled = static_cast<float>(exponent == 0 ? fraction : fraction | 1u << mantissa_bits);
  return std::ldexp(scaled, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

// The magnitude code nearest to `value` >= 0, ties to even, ignoring the format's upper end.
uint32_t encode_small(float value, int mantissa_bits, int bias) {
  int exponent = 0;
  std::frexp(value, &exponent);  // value = f * 2^exponent, f in [0.5, 1)
  const int unit = (exponent - 1 < 1 - bias ? 1 - bias : exponent - 1) - mantissa_bits;
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(value, -unit)));
  // With a normal exponent `steps` carries the hidden bit, so a carry into the next binade comes out right by itself.
  return steps + (static_cast<uint32_t>(unit + mantissa_bits + bias - 1) << mantissa_bits);
}

}  // namespace

float f16_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7FFFu;
  const float sign = bits & 0x8000u ? -1.0f : 1.0f;
  if (magnitude > 0x7C00u) return std::nanf("");
  if (magnitude == 0x7C00u) return sign * INFINITY;
  return sign * decode_small(magnitude, 10, 15);
}

uint16_t float_to_f16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7C00;
  if (magnitude == 0) return sign;
  return static_cast<uint16_t>(sign | encode_small(magnitude, 10, 15));
}

float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return std::nanf("");
  const float value = decode_small(magnitude, 3, 7);
  return code & 0x80u ? -value : value;
}

uint8_t float_to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7F;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0f) return sign | 0x7E;
  if (magnitude == 0) return sign;
  return static_cast<uint8_t>(sign | encode_small(magnitude, 3, 7));
}

}  // namespace braid
