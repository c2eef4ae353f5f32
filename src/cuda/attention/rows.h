// The ragged batch and the paged cache as kernels see them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>

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
  int32_t table_width;
  int32_t page_size, page_shift;  // shift: -1 where the size is no power of two
};

inline CacheView cache_view(const PagedCache& cache) {
  const auto page_size = static_cast<int32_t>(cache.keys.size(1));
  const bool power = (page_size & (page_size - 1)) == 0;
  return {view(cache.keys),
          view(cache.values),
          cache.table.as<int32_t>(),
          static_cast<int32_t>(cache.table.stride(0)),
          page_size,
          power ? std::countr_zero(static_cast<uint32_t>(page_size)) : -1};
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

// The place of a position among all positions of all pages.
__device__ inline int32_t place_of(const CacheView& cache, int32_t sequence, int32_t position) {
  const int32_t index = cache.page_shift >= 0 ? position >> cache.page_shift : position / cache.page_size;
  return cache.table[sequence * cache.table_width + index] * cache.page_size + (position - index * cache.page_size);
}

}  // namespace braid::cuda
