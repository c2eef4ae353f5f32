// The ragged batch as ops see it: which rows belong to which sequence, where they stand, and where state lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace braid {

// A pass over `tokens` rows of `sequences` sequences; the rows of one sequence follow each other, and the first `thin`
// sequences bring one row each. Extents are read by the host; tensors may lie on a device.
struct Rows {
  int32_t tokens = 0;
  int32_t sequences = 0;
  int32_t thin = 0;
  int32_t longest = 0;  // most rows of one sequence
  int64_t context = 0;  // no position in this pass is at or beyond it
  int64_t extent = 0;   // context rounded up, so that passes of like length have the same launches; 0: as context
  Tensor starts;        // i32 [sequences + 1]: first row of each sequence, then `tokens`
  Tensor positions;     // i32 [tokens]: absolute position of each row; consecutive within a sequence
  Tensor slots;         // i32 [sequences]: state slot of each sequence

  // What launches, page tables and work memory are sized by: at least `context`.
  int64_t reach() const { return extent > 0 ? extent : context; }
};

// Keys and values of one attention layer, in pages shared by all layers of a class.
// keys, values: [pages, page size, heads, head size], f32 or bf16. table: i32 [sequences, pages of the longest]:
// position p of sequence s lies in page table[s, p div page size] at p mod page size. Memory beyond a sequence's length
// holds anything.
struct PagedCache {
  Tensor keys, values;
  Tensor table;
};

}  // namespace braid
