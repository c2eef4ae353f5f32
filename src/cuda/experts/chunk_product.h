// Products of a warp with 16 weight rows of 128 bytes each ("a chunk") and one row of x, on the tensor cores' form for
// warps: sums[0] and sums[1] get what weight rows lane / 4 and lane / 4 + 8 bring; lanes whose number is a multiple of
// 4 hold the result. Lane (g, t) reads 32 bytes of its two rows at 32 t; any order of columns will do that x shares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/codes.h"
#include "cuda/common/reduce.h"
#include "cuda/common/warp_group.h"
#include "cuda/linear/coding.h"

namespace braid::cuda {

__device__ inline void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Lane (g, t)'s 32 bytes of row g of a chunk of weights, whose pieces of 16 bytes are exchanged (`swizzled`).
struct Words8 {
  uint4 low, high;
  __device__ static Words8 of_weight(const uint8_t* chunk, int g, int t) {
    return {*reinterpret_cast<const uint4*>(chunk + swizzled(g, 2 * t)),
            *reinterpret_cast<const uint4*>(chunk + swizzled(g, 2 * t + 1))};
  }
  __device__ uint2 pair(int i) const {  // known when compiled
    return i == 0   ? uint2{low.x, low.y}
           : i == 1 ? uint2{low.z, low.w}
           : i == 2 ? uint2{high.x, high.y}
                    : uint2{high.z, high.w};
  }
};

// Of one coding:
//   kColumns     columns of a chunk
//   kRowScales   of a chunk, which its sums are multiplied by: of its rows; 2: of the first and the second eight; 0:
//   none kGroupBytes  of a chunk's row, beside its codes input_bytes  of a row of x of so many chunks, as `put` stores
//   and `add` reads it
template <Coding kCoding>
struct ChunkProduct;

// Codes become bf16 with their group's scale, which is exact but for the factor 2^-7: the bits of an E2M1 number, put
// where a bf16 number has its exponent's end, are that number times 2^-126, and the group's scale is taken times 2^119.
template <>
struct ChunkProduct<Coding::Nvfp4> {
  static constexpr int kColumns = 256, kGroupBytes = 16;
  static constexpr int kRowScales = 16;
  static constexpr __host__ __device__ int input_bytes(int chunks) { return chunks * 512; }
  // Eight columns of lane t: word w of its eight.
  __device__ static int eight_at(int chunk, int t, int w) { return chunk * 512 + t * 128 + ((w ^ t) << 4); }

  // Eights in the order in which `decoded` gives codes.
  __device__ static void put(uint8_t* x, int, int chunk, int lane, const float (&values)[16], float by) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(values[8 * half + i] * by, values[8 * half + i + 4] * by);
        words[i] = *reinterpret_cast<const uint32_t*>(&both);
      }
      *reinterpret_cast<uint4*>(x + eight_at(chunk, lane / 4, lane % 4 * 2 + half)) = {words[0], words[1], words[2],
                                                                                       words[3]};
    }
  }
  // Of four groups, each twice.
  struct Scales {
    uint32_t pairs[4];
    __device__ explicit Scales(const uint8_t* groups) {
      const uint32_t codes = *reinterpret_cast<const uint32_t*>(groups);
      const float2 low = e4m3_values(codes & 0xFFFF), high = e4m3_values(codes >> 16);
      const float values[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const __nv_bfloat162 both = __float2bfloat162_rn(values[i] * 0x1p119f);
        pairs[i] = *reinterpret_cast<const uint32_t*>(&both);
      }
    }
  };
  // Codes 0 and 4, 1 and 5, 2 and 6, 3 and 7.
  __device__ static uint4 decoded(uint32_t codes, uint32_t scale) {
    constexpr uint32_t kSigns = 0x80008000u, kNumbers = 0x01C001C0u;
    return {times((codes << 12 & kSigns) | (codes << 6 & kNumbers), scale),
            times((codes << 8 & kSigns) | (codes << 2 & kNumbers), scale),
            times((codes << 4 & kSigns) | (codes >> 2 & kNumbers), scale),
            times((codes & kSigns) | (codes >> 6 & kNumbers), scale)};
  }
  __device__ static uint32_t times(uint32_t a, uint32_t b) {
    uint32_t out = 0;
#if __CUDA_ARCH__ >= 900
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
#endif
    return out;
  }
  __device__ static void add(float (&sums)[2], const uint8_t* a, const uint8_t* groups, const uint8_t* x, int,
                             int chunk, float low, float high) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const Words8 upper = Words8::of_weight(a, g, t), lower = Words8::of_weight(a + 1024, g, t);
    const Scales upper_scales(groups + g * 16 + t * 4), lower_scales(groups + (g + 8) * 16 + t * 4);
    float fresh[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint2 p = upper.pair(i), q = lower.pair(i);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint4 u = decoded(j == 0 ? p.x : p.y, upper_scales.pairs[i]);
        const uint4 l = decoded(j == 0 ? q.x : q.y, lower_scales.pairs[i]);
        const uint4 b = *reinterpret_cast<const uint4*>(x + eight_at(chunk, t, 2 * i + j));
        multiply_bf16(fresh, {u.x, l.x, u.y, l.y}, b.x, b.y);
        multiply_bf16(fresh, {u.z, l.z, u.w, l.w}, b.z, b.w);
      }
    }
    sums[0] += low * 0x1p7f * fresh[0], sums[1] += high * 0x1p7f * fresh[2];
  }
};

}  // namespace braid::cuda
