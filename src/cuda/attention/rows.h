// The ragged batch and the paged cache as kernels see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/view.h"
#include "ops/rows.h"

namespace braid::cuda {

struct RowsView {
  const int32_t *starts, *positions, *slots;
  int32_t tokens, sequences;
};

inline RowsView rows_view(const Rows& rows) {
  return {rows.starts.as<int32_t>(), rows.positions.as<int32_t>(), rows.slots.as<int32_t>(), rows.tokens,
          rows.sequences};
}

struct CacheView {
  View keys, values;
  const int32_t* table;
  int64_t table_width;
};

inline CacheView cache_view(const PagedCache& cache) {
  return {view(cache.keys), view(cache.values), cache.table.as<int32_t>(), cache.table.stride(0)};
}

// The sequence that row `row` belongs to.
__device__ inline int32_t sequence_of(const RowsView& rows, int32_t row) {
  int32_t low = 0, high = rows.sequences - 1;
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (rows.starts[middle] <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

__device__ inline int32_t page_of(const CacheView& cache, int32_t sequence, int32_t position) {
  return cache.table[sequence * cache.table_width + position / cache.keys.shape[1]];
}

}  // namespace braid::cuda
