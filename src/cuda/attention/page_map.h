// Pages of keys or values as the copy engine sees them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "cuda/attention/hopper.h"
#include "cuda/common/view.h"

namespace braid::cuda {

constexpr int kBoxPositions = 16;

// For boxes of 64 numbers of a head at 16 positions that follow each other in a page, which arrive as rows of 128 bytes
// placed as `swizzled` says; numbers beyond the head arrive as 0. The map is good while the pages stay where they are.
// Pages hold bf16 heads that begin at 16 bytes. A Resource error when the driver refuses.
CUtensorMap page_map(const View& pages);

// `bytes` more are to arrive before the barrier's phase ends; counts as an arrival too.
__device__ inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

struct Box {
  int32_t column, head, place;  // place: among all positions of all pages
};
__device__ inline void copy_box(uint32_t to, const CUtensorMap* map, const Box& box, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(box.column), "r"(box.head), "r"(box.place), "r"(barrier)
      : "memory");
}
// Brings a box to the second-level cache.
__device__ inline void prefetch_box(const CUtensorMap* map, const Box& box) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(box.column),
               "r"(box.head), "r"(box.place)
               : "memory");
}

}  // namespace braid::cuda
