// Slots (a row and one of its choices) by expert, and rows of x as the products by groups read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "cuda/linear/product.h"
#include "ops/moe.h"

namespace braid::cuda {

// Where slots went: position `place[slot]`, of row `rows[position]` of x. Slots of one expert follow each other; behind
// them, where `shared` was asked for, stands every row once more, as group(s) whose matrix is the number of experts.
struct Arranged {
  int32_t* rows = nullptr;
  int32_t* place = nullptr;
  Group* groups = nullptr;
  int32_t* group_count = nullptr;
  int64_t positions = 0;
};

// Rows as the tensor cores read them, [rows, pieces] of `bytes` each: E4M3 codes with scales [columns / 128, rows *
// pieces] (pieces 1 or 2, coding.h), or bf16 (no scales).
struct TileRows {
  uint8_t* data = nullptr;
  float* scales = nullptr;
  int64_t rows = 0, bytes = 0;
  int pieces = 1;
};

struct Arranging {
  int32_t most = 0;     // slots of a group
  bool shared = false;  // every row once more, behind the slots
  int pieces = 0;       // of a number of x; 0: bf16
};
// Sorts the slots; x, whose rows begin at 16 bytes, is written as tile rows.
Arranged arrange(Context& context, const Experts& op, const Arranging& how, TileRows& x);
// The rows of a view in work memory whose rows follow each other.
TileRows tile_rows(Context& context, const View& x, int pieces);

}  // namespace braid::cuda
