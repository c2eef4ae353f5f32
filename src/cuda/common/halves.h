// Codes of weights as pairs of f16, for the tensor cores: exact, since every code has at most 11 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace braid::cuda {

// Two E4M3 codes.
__device__ inline uint32_t e4m3_halves(uint32_t pair) {
  uint32_t out;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(out) : "h"(static_cast<uint16_t>(pair)));
  return out;
}

// The lower, or the upper, two of four int8 codes: 1024 + 128 + code has the code with its sign bit flipped as its last
// byte in f16.
template <int kUpper>
__device__ inline uint32_t int8_halves(uint32_t codes) {
  const uint32_t magic = __byte_perm(codes ^ 0x80808080u, 0x64646464u, kUpper ? 0x4342 : 0x4140);
  const __half2 value = __hsub2(*reinterpret_cast<const __half2*>(&magic), __half2half2(__ushort_as_half(0x6480)));
  return *reinterpret_cast<const uint32_t*>(&value);
}

// Eight E2M1 codes, the first lowest, times kE2m1Unit: pairs of codes (0, 4), (1, 5), (2, 6), (3, 7). Their fields are
// moved into those of f16, where they mean the same but for the exponents' zero, subnormal codes included.
constexpr float kE2m1Unit = 1.0f / 16384;
__device__ inline void e2m1_halves(uint32_t (&out)[4], uint32_t codes) {
  constexpr uint32_t kSigns = 0x80008000u, kFields = 0x0E000E00u;
  out[0] = (codes << 12 & kSigns) | (codes << 9 & kFields);
  out[1] = (codes << 8 & kSigns) | (codes << 5 & kFields);
  out[2] = (codes << 4 & kSigns) | (codes << 1 & kFields);
  out[3] = (codes & kSigns) | (codes >> 3 & kFields);
}

__device__ inline uint32_t multiply_halves(uint32_t a, uint32_t b) {
  const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&product);
}

// sums[16 x 8] += a[16 x 16] * b[16 x 8] of bf16 or f16. With g = lane / 4 and t = lane % 4: a = rows g, g + 8, g, g +
// 8 at columns 2t, 2t, 2t + 8, 2t + 8 (pairs); b = rows 2t, 2t + 8 (pairs) of column g; sums = row g columns 2t, 2t +
// 1, then row g + 8.
template <bool kBf16>
__device__ inline void multiply_16(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kBf16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace braid::cuda
