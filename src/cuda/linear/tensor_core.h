// The tensor core instruction for bf16, and FP8 codes as bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace braid::cuda {

// sums[16 x 8] += a[16 x 16] * b[16 x 8]. With g = lane / 4 and t = lane % 4: a = rows g, g + 8, g, g + 8 at columns
// 2t, 2t, 2t + 8, 2t + 8 (pairs); b = rows 2t, 2t + 8 (pairs) of column g; sums = row g columns 2t, 2t + 1, then row g
// + 8.
__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two E4M3 codes, in the upper bytes of the halves of `codes`, as two bf16: the fields are moved into place, which
// leaves 2^-120 of the value, subnormal codes included; one product brings it back, exactly. NaN codes give 480.
__device__ inline uint32_t widen_pair(uint32_t codes) {
  const uint32_t bits = (codes & 0x80008000u) | ((codes & 0x7F007F00u) >> 4);
  uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(bits), "r"(0x7B807B80u), "r"(0x80008000u));
  return out;
}

// Four codes, lowest byte first, as two pairs of bf16.
__device__ inline void widen(uint32_t codes, uint32_t& low, uint32_t& high) {
  low = widen_pair(__byte_perm(codes, 0, 0x1404));
  high = widen_pair(__byte_perm(codes, 0, 0x3424));
}

}  // namespace braid::cuda
