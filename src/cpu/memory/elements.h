// Reading and writing vectors of f32 and bf16 elements alike, and the few functions of rows that several kernels share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/simd/vec.h"
#include "tensor/tensor.h"

namespace braid::cpu::BRAID_ISA {

// Elements are float or uint16_t (bf16). With `count`, only that many are touched; the other lanes are zero.
BRAID_INLINE Vec load_as(const float* from) { return load(from); }
BRAID_INLINE Vec load_as(const uint16_t* from) { return load_bf16(from); }
BRAID_INLINE Vec load_as(const float* from, int64_t count) {
  return count >= kLanes ? load(from) : load_part(from, count);
}
BRAID_INLINE Vec load_as(const uint16_t* from, int64_t count) {
  return count >= kLanes ? load_bf16(from) : load_bf16_part(from, count);
}
BRAID_INLINE void store_as(float* to, Vec values) { store(to, values); }
BRAID_INLINE void store_as(uint16_t* to, Vec values) { store_bf16(to, values); }
BRAID_INLINE void store_as(float* to, Vec values, int64_t count) {
  count >= kLanes ? store(to, values) : store_part(to, values, count);
}
BRAID_INLINE void store_as(uint16_t* to, Vec values, int64_t count) {
  count >= kLanes ? store_bf16(to, values) : store_bf16_part(to, values, count);
}

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Elements [offset, offset + count) of a tensor's memory (f32 or bf16) as floats, and back with one rounding.
inline void read_row(const Tensor& tensor, int64_t offset, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes)
    store_as(out + i,
             tensor.dtype == DType::BF16 ? load_as(tensor.as<uint16_t>() + offset + i, count - i)
                                         : load_as(tensor.as<float>() + offset + i, count - i),
             count - i);
}
inline void write_row(const Tensor& tensor, int64_t offset, int64_t count, const float* values) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec v = load_as(values + i, count - i);
    tensor.dtype == DType::BF16 ? store_as(tensor.as<uint16_t>() + offset + i, v, count - i)
                                : store_as(tensor.as<float>() + offset + i, v, count - i);
  }
}

// 1 / (1 + e^-x)
BRAID_INLINE Vec logistic(Vec x) { return splat(1.0f) / (splat(1.0f) + exponential(zero() - x)); }

template <typename T>
BRAID_INLINE float dot(const T* a, const T* b, int64_t count) {
  Vec total = zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) total = fma(load_as(a + i), load_as(b + i), total);
  if (i < count) total = fma(load_as(a + i, count - i), load_as(b + i, count - i), total);
  return sum(total);
}

}  // namespace braid::cpu::BRAID_ISA
