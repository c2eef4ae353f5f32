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

struct KeyRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

inline KeyRange common(KeyRange a, KeyRange b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Positions [first, first + count) lie in one page, the first one at `offset`.
struct PageRun {
  int64_t first, count, offset;
};

// Cuts the positions of `range` at the borders of pages; returns the number of runs, at most one a position.
inline int find_runs(const HeadPages& head, KeyRange range, PageRun* runs) {
  int count = 0;
  for (int64_t position = range.begin; position < range.end;) {
    const int64_t left_of_page = head.page_size() - position % head.page_size();
    const int64_t left = range.end - position;
    runs[count] = {position, left < left_of_page ? left : left_of_page, head.offset(position)};
    position += runs[count++].count;
  }
  return count;
}

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
