// Products by groups of rows, each with the matrix of one expert, on Hopper's tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/experts/arrange.h"

namespace braid::cuda {

// Columns of one tile at most: slots times the codes of each. A weight is read once for so many.
constexpr int32_t kManyColumns = 160, kFewColumns = 32;

// out[position] = x * W^T for the positions of every group, W the group's matrix; gated: silu(first half) * second
// half. out is bf16, its rows at 16 bytes. The columns of a group are at most `most_columns`, one of the two above.
struct GroupedProduct {
  View out;
  TileRows x;
  const int32_t* rows = nullptr;  // of x, by position; null: the position itself
  const Codes* codes = nullptr;   // of the experts
  const Codes* shared = nullptr;  // matrix number codes->count; of the same extents; may be null
  bool gated = false;
  const Group* groups = nullptr;
  const int32_t* group_count = nullptr;
  int32_t most_columns = kManyColumns;
};

bool grouped_takes(const Context& context, const Codes& codes, bool gated);
void multiply_grouped(Context& context, const GroupedProduct& product);

}  // namespace braid::cuda
