// The instructions behind the tensor core kernels of attention: copies into shared memory that go on while others
// compute, barriers for them, and the order of the warpgroup's products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace braid::cuda {

__device__ inline uint32_t shared_address(const void* memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}

// Copies 16 bytes, or clears them without reading `from` where `valid` does not hold.
__device__ inline void copy_16(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kOpen` of this thread's closed groups of copies go on.
template <int kOpen>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

// What this thread wrote to shared memory is seen by the warpgroup's products that a barrier orders after it.
__device__ inline void publish_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barriers of 8 bytes in shared memory; a phase ends when as many have arrived as `set_barrier` was told.
__device__ inline void set_barrier(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ inline void arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void wait_phase(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over: }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Barriers of the block by number: `sync_some` waits for `threads` threads, of which some only arrive.
__device__ inline void sync_some(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void arrive_some(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Registers of each thread from here on, by whole warpgroups.
template <int kCount>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Before the first of some products, and after their operands in registers were written by other instructions.
__device__ inline void open_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void close_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kOpen>
__device__ inline void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}
// Keeps the compiler from moving uses of registers that products write across this point.
template <int kCount>
__device__ inline void hold_registers(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

// A matrix in shared memory as products see it: rows of 128 bytes whose 16-byte pieces are placed by `swizzled`, eight
// rows in 1024 bytes. `panel`: bytes from one such matrix to the one with the next 64 columns, for operands whose
// columns are contiguous and more than 64.
__device__ inline uint64_t matrix_at(uint32_t address, uint32_t panel) {
  return uint64_t{1} << 62 | uint64_t{1024 >> 4} << 32 | uint64_t{(panel >> 4) & 0x3FFFu} << 16 |
         ((address >> 4) & 0x3FFFu);
}
// Byte offset of 16-byte piece `piece` of row `row`.
__device__ inline uint32_t swizzled(int row, int piece) {
  return static_cast<uint32_t>(row * 128 + ((piece ^ (row & 7)) << 4));
}

__device__ inline float exp2_fast(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
// Two numbers as bf16, `low` in the lower half.
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

}  // namespace braid::cuda
