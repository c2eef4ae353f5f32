// Copies that threads make without waiting, whose end arrives at a barrier (arrival.h), and numbers sent to another
// block of a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"

namespace braid::cuda {

// Copies 16 bytes, or 4, from device memory.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from) {
  static_assert(kBytes == 4 || kBytes == 16);
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
// The barrier, which expects this arrival, counts it when this thread's copies so far are there.
__device__ inline void arrive_after_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Stores four numbers in another block's memory and reports 16 bytes to a barrier there.
__device__ inline void send_four(uint32_t at, const float (&values)[4], uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
      "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]), "r"(barrier)
      : "memory");
#endif
}
// An arrival of a block that only tells that it is there, behind `barriers_made`.
__device__ inline void cluster_arrive_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

}  // namespace braid::cuda
