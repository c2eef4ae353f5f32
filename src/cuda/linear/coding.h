// Coding numbers in E4M3 with a scale (semantics LIN-17): one code, or two of which the second holds what the first
// left.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda/common/reduce.h"
#include "cuda/common/view.h"

namespace braid::cuda {

// A number is scale * (code + kRestScale * second code): as near as bf16 to all but what is smaller than 2^-15 of the
// largest number under the scale, and exact for bf16 numbers.
constexpr float kRestScale = 1.0f / 16;

// Two codes from two floats, `low` in the lower byte; NaN stays NaN.
__device__ inline uint32_t e4m3_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(codes) : "f"(low), "f"(high));
  return codes;
#else
  return __nv_cvt_float2_to_fp8x2({low, high}, __NV_SATFINITE, __NV_E4M3);
#endif
}
__device__ inline float2 e4m3_values(uint32_t pair) {
#if __CUDA_ARCH__ >= 890
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(pair)));
  return __half22float2(*reinterpret_cast<const __half2*>(&halves));
#else
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3)));
#endif
}

// Sixteen numbers from element `at` on; their address is a multiple of 16 bytes.
__device__ inline void load_16(float (&values)[16], const View& x, int64_t at) {
  if (x.bf16) {
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(x.data) + at);
    const uint4 low = from[0], high = from[1];
    const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
    return;
  }
  const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(x.data) + at);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 four = from[i];
    values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
  }
}

// Eight numbers from element `at` on, as they lie there: a multiple of 16 bytes.
template <bool kBf16>
struct EightOfX {
  uint4 words[kBf16 ? 1 : 2];

  __device__ void load(const View& x, int64_t at) {
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const char*>(x.data) + at * (kBf16 ? 2 : 4));
#pragma unroll
    for (int i = 0; i < (kBf16 ? 1 : 2); ++i) words[i] = from[i];
  }
  __device__ void get(float (&values)[8]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint4& four = words[kBf16 ? 0 : i / 4];
      const int at = kBf16 ? i / 2 : i % 4;
      const uint32_t word = at == 0 ? four.x : at == 1 ? four.y : at == 2 ? four.z : four.w;
      values[i] = __uint_as_float(!kBf16 ? word : i % 2 == 0 ? word << 16 : word & 0xFFFF0000u);
    }
  }
};

// The scale of the numbers of `lanes` neighbouring lanes, which call this together.
template <int lanes>
__device__ inline float scale_of(const float (&values)[16]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) largest = fmaxf(largest, fabsf(values[i]));
  const unsigned group = ((1ull << lanes) - 1) << threadIdx.x % 32 / lanes * lanes;
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(group, largest, offset));
  return fmaxf(largest / 448, 1e-12f);
}

__device__ inline void code_16(uint32_t (&words)[4], const float (&values)[16], float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    words[i] = e4m3_pair(values[4 * i] * factor, values[4 * i + 1] * factor) |
               e4m3_pair(values[4 * i + 2] * factor, values[4 * i + 3] * factor) << 16;
}

// The second codes, given the first.
__device__ inline void code_rest_16(uint32_t (&words)[4], const float (&values)[16], float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 low = e4m3_values(words[i] & 0xFFFF), high = e4m3_values(words[i] >> 16);
    words[i] =
        e4m3_pair((values[4 * i] * factor - low.x) / kRestScale, (values[4 * i + 1] * factor - low.y) / kRestScale) |
        e4m3_pair((values[4 * i + 2] * factor - high.x) / kRestScale,
                  (values[4 * i + 3] * factor - high.y) / kRestScale)
            << 16;
  }
}

// The same in whole numbers from -127 to 127; the second ones count in 254ths of a step.
__device__ inline uint32_t whole_byte(float value) {
  return static_cast<uint32_t>(max(-127, min(127, __float2int_rn(value)))) & 0xFF;
}
__device__ inline void whole_16(uint32_t (&words)[4], const float (&values)[16], float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) words[i] |= whole_byte(values[4 * i + j] * factor) << 8 * j;
  }
}
__device__ inline void whole_rest_16(uint32_t (&words)[4], const float (&values)[16], float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t first = words[i];
    words[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto code = static_cast<float>(static_cast<int8_t>(first >> 8 * j));
      words[i] |= whole_byte((values[4 * i + j] * factor - code) * 254) << 8 * j;
    }
  }
}

}  // namespace braid::cuda
