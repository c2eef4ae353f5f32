// Products on Hopper's tensor cores with both operands in shared memory and few columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace braid::cuda {

// sums[64 x kColumns] = (keep ? sums : 0) + a[64 x 32 bytes] * b[kColumns x 32 bytes]^T, both bf16 or both E4M3, where
// `a` and `b` are descriptions of operands in shared memory. The sums lie in registers as warp_group.h says.
template <int kColumns, bool kFp8>
struct SharedProduct;

template <>
struct SharedProduct<8, true> {
  __device__ static __forceinline__ void add(float (&d)[4], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3"
        "}, %4, %5, p, 1, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

template <>
struct SharedProduct<8, false> {
  __device__ static __forceinline__ void add(float (&d)[4], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3"
        "}, %4, %5, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

template <>
struct SharedProduct<16, true> {
  __device__ static __forceinline__ void add(float (&d)[8], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, p, 1, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

template <>
struct SharedProduct<16, false> {
  __device__ static __forceinline__ void add(float (&d)[8], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

template <>
struct SharedProduct<32, true> {
  __device__ static __forceinline__ void add(float (&d)[16], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

template <>
struct SharedProduct<32, false> {
  __device__ static __forceinline__ void add(float (&d)[16], uint64_t a, uint64_t b, bool keep) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, p, 1, 1, 0, 0;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b), "r"(static_cast<int>(keep)));
#endif
  }
};

}  // namespace braid::cuda
