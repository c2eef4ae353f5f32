// Products of a warp on tiles of f16 in shared memory, and with them the inverses of unit lower triangular systems: in
// f32 within blocks of 16 rows, by products between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {

__device__ inline void load_fragment(uint32_t (&out)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(at)));
}
__device__ inline void load_across(uint32_t (&out)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(at)));
}
// sums[16 x 8] += a[16 x 16] * b[16 x 8], laid out as multiply_add of cuda/linear/tensor_core.h has them.
__device__ inline void multiply_halves(float (&sums)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, "
      "%3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

// Inverts (1 + lower) of two blocks of 16 on the diagonal of a tile, in f32, and multiplies the columns by beta: half a
// warp a block, a lane a column.
__device__ inline void invert_diagonal(uint8_t* tile, const float* beta, int block) {
  const int lane = threadIdx.x % 32, column = lane % 16, first = 16 * (block + lane / 16), piece = first / 8;
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint4 low = *reinterpret_cast<const uint4*>(tile + swizzled(first + i, piece));
    const uint4 high = *reinterpret_cast<const uint4*>(tile + swizzled(first + i, piece + 1));
    const uint32_t row[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float sums[2] = {i == column ? 1.0f : 0.0f, 0};
#pragma unroll
    for (int l = 0; l < i; l += 2) {
      const float2 of = halves_of(row[l / 2]);
      sums[0] = fmaf(-of.x, x[l], sums[0]);
      if (l + 1 < i) sums[1] = fmaf(-of.y, x[l + 1], sums[1]);
    }
    x[i] = sums[0] + sums[1];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16; ++i)
    *reinterpret_cast<__half*>(tile + swizzled(first + i, piece + column / 8) + column % 8 * 2) =
        __float2half_rn(x[i] * beta[first + column]);
  __syncwarp();
}

// Two inverted blocks of 16 kBlocks rows on the diagonal, and the block of the system below the first one: rows 16 m ..
// 16 m + 15 of -(second inverse) (block) (first inverse), which takes the block's place once all rows are made.
template <int kBlocks>
struct Join {
  float out[2 * kBlocks][4] = {};

  __device__ void make(const uint8_t* tile, int first, int m) {
    const int lane = threadIdx.x % 32, below = first + 16 * kBlocks;
    const auto at = [&](int row, int column) { return tile + swizzled(row + lane % 16, column / 8 + lane / 16); };
    float part[2 * kBlocks][4] = {};
    uint32_t a[4], b[4];
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      if (k > m) break;
      load_fragment(a, at(below + 16 * m, below + 16 * k));
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        load_across(b, at(below + 16 * k, first + 16 * n));
        multiply_halves(part[2 * n], a, b[0], b[1]), multiply_halves(part[2 * n + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      const float(&low)[4] = part[2 * k], (&high)[4] = part[2 * k + 1];
      a[0] = half_pair(-low[0], -low[1]), a[1] = half_pair(-low[2], -low[3]);
      a[2] = half_pair(-high[0], -high[1]), a[3] = half_pair(-high[2], -high[3]);
#pragma unroll
      for (int n = 0; n <= k; ++n) {
        load_across(b, at(first + 16 * k, first + 16 * n));
        multiply_halves(out[2 * n], a, b[0], b[1]), multiply_halves(out[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
  __device__ void put(uint8_t* tile, int first, int m) const {
    const int lane = threadIdx.x % 32, below = first + 16 * kBlocks;
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(tile + swizzled(below + 16 * m + lane / 4 + 8 * half, first / 8 + n) +
                                     lane % 4 * 4) = half_pair(out[n][2 * half], out[n][2 * half + 1]);
  }
};

}  // namespace braid::cuda
