// What one pass computes: rows of several sequences with their tokens, and which of them reach the head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/rows.h"
#include "tensor/tensor.h"

namespace braid {

// All tensors are in the executor's memory. It does not say "prefill" or "decode".
struct Batch {
  Rows rows;
  Tensor tokens;     // i32 [tokens]
  Tensor pages;      // i32 [sequences, pages of the longest]: page tables
  Tensor head_rows;  // i32 [n]: rows whose logits are wanted; empty: none
};

}  // namespace braid
