// Where a position's keys and values lie, and which sequence a row belongs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/rows.h"

namespace braid::cpu::BRAID_ISA {

// Pages of keys or values, for one sequence and one head of the cache.
struct HeadPages {
  const Tensor* pages = nullptr;
  const int32_t* table = nullptr;  // of the sequence
  int64_t head = 0;

  int64_t page_size() const { return pages->size(1); }
  // The element offset of a position's numbers in the tensor's memory.
  int64_t offset(int64_t position) const {
    return table[position / page_size()] * pages->stride(0) + position % page_size() * pages->stride(1) +
           head * pages->stride(2);
  }
};

inline int64_t sequence_of(const Rows& rows, int64_t row) {
  const int32_t* starts = rows.starts.as<int32_t>();
  int64_t low = 0, high = rows.sequences;  // starts[low] <= row < starts[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (starts[middle] <= row ? low : high) = middle;
  }
  return low;
}

}  // namespace braid::cpu::BRAID_ISA
