// Barriers in shared memory that count arrivals and bytes, and the bulk copies that report to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace braid::cuda {

__device__ inline uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
// After the barriers of a block were made, by the threads that made them: copies and other blocks may use them.
__device__ inline void barriers_made() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ inline void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives, and makes the phase wait for so many bytes more.
__device__ inline void barrier_expect(uint64_t* barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
#endif
}
// Waits for the end of the phase with this parity: what this block, its copies, and others of the cluster put into its
// shared memory before it is seen. Acquiring for the whole cluster would empty the first-level cache at every wait.
__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// Copies `bytes`, a multiple of 16, from device memory; the barrier counts them.
__device__ inline void bulk_copy(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#endif
}

// Before a barrier behind which one thread stores: lets the copies see what this thread wrote to shared memory.
__device__ inline void publish_to_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Brings memory that begins at 16 bytes, a multiple of 16 of it, to L2.
__device__ inline void bulk_prefetch(const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// Brings the line of 128 bytes that holds an address to L2.
__device__ inline void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Begins to copy `bytes`, a multiple of 16, to device memory.
__device__ inline void bulk_store(void* to, const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], "
      "%2;\ncp.async.bulk.commit_group;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
#endif
}
// Waits until this thread's bulk stores have read shared memory.
__device__ inline void wait_for_stores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// Blocks of this cluster.
__device__ inline uint32_t cluster_size() {
  uint32_t size = 1;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
#endif
  return size;
}
// Another block of a cluster: its rank, and an address there.
__device__ inline uint32_t cluster_rank() {
  uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}
__device__ inline uint32_t address_in(uint32_t rank, const void* at) {
  uint32_t out = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"(shared_address(at)), "r"(rank));
#endif
  return out;
}
__device__ inline int32_t load_from(uint32_t at) {
  int32_t out = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(out) : "r"(at) : "memory");
#endif
  return out;
}
// Stores a number in another block's memory and reports 4 bytes to a barrier there.
__device__ inline void store_in(uint32_t at, float value, uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 "
      "[%0], %1, [%2];" ::"r"(at),
      "f"(value), "r"(barrier)
      : "memory");
#endif
}
// Stores four numbers in another block's memory, or arrives at a barrier there: what this thread, and those that it has
// met, wrote before is seen behind a wait for it.
__device__ inline void store_four_in(uint32_t at, const float (&values)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
#endif
}
__device__ inline void arrive_in(uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
#endif
}
// What this thread read and wrote before it arrives lies before what others do after their wait.
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
__device__ inline void cluster_sync() { cluster_arrive(), cluster_wait(); }

}  // namespace braid::cuda
