// A few rows of one sequence inside one chunk, as the delta rule wants them: convolved, normalised, gated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/recurrent/tile.h"

namespace braid::cpu::BRAID_ISA {

constexpr int64_t kChunkRows = 64;
// Strides are odd multiples of a cache line: walking down a column then does not fall on few cache sets.
constexpr int64_t kChunkStride = kChunkRows + 16;
constexpr int64_t padded_stride(int64_t size) { return round_up(size, 32) + 16; }

// Buffers of one team member. Row i of q, k, v, o starts at i * stride; rows are zero from their size up to a whole
// tile, and so are the rows up to a whole tile.
struct Segment {
  int64_t rows = 0;
  int64_t key_size = 0, value_size = 0;
  int64_t key_stride = 0, value_stride = 0;
  float *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  float *beta = nullptr, *decay = nullptr;  // of each row: beta, e^lg

  int64_t padded_rows() const { return round_up(rows, kTileHeight); }
};

}  // namespace braid::cpu::BRAID_ISA
