// Products of few rows of x on Hopper: weights stream through shared memory to the tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "cuda/common/codes.h"
#include "cuda/common/context.h"
#include "cuda/common/start.h"
#include "cuda/common/view.h"
#include "cuda/linear/product.h"

namespace braid::cuda {

// One weight of a stream, and where its tiles lie among all of them.
struct StreamSource {
  CUtensorMap map;
  View out;
  const float* scales = nullptr;
  int32_t scale_columns = 0, scale_rows = 0, block_rows = 1;
  int32_t rows = 0;  // of one matrix
  int32_t first_tile = 0;
};

// What tiles are:
//   Rows    128 rows of a source (gated: 64 rows of gate and the 64 of up that belong to them), all rows of x as
//   columns Chosen  64 + 64 rows of gate and up of the expert in one slot of one row of x (source 0), after all slots
//   those of
//           the shared expert (source 1); out is `hidden`: per row of x the slots' values, then the shared expert's
//   Joined  128 outputs of one row of x, the sum over its slots and the shared expert, columns of `hidden` after each
//           other
enum class StreamMode { Rows, Chosen, Joined };

struct Stream {
  StreamSource sources[4];
  int32_t source_count = 0, tiles = 0;
  int32_t stages = 0;  // of a tile: 128 bytes of each of its rows
  bool gated = false;
  View x;
  View out;  // of Chosen and Joined
  int32_t tokens = 0;
  // Of experts.
  const int32_t* chosen = nullptr;
  int64_t chosen_stride = 0;
  View weights, shared_gate;
  int32_t k = 0;
  int32_t slot_stages = 0;  // Joined: of one slot
  // Work memory: sums of blocks that do not begin their tile, and whether they are there (zero between launches).
  float* parts = nullptr;
  int32_t* flags = nullptr;
  // What the launch chooses.
  int32_t ring = 0;       // stages in shared memory
  int32_t x_rows = 0;     // rows of x in shared memory, of Chosen and Joined
  int32_t row_bytes = 0;  // of each
};

// Whether the weight has a form for this kernel, on this device; gated: rows of gate, then of up.
bool streams(const Context& context, const Codes& codes, bool gated);
// Whether that many rows of x fit beside the weights.
bool stream_holds(const Codes& codes, int64_t tokens);
StreamSource stream_source(const Codes& codes);
// Products that share x, their weights all bf16 or all FP8; gated: one.
void multiply_streamed(Context& context, std::span<const Product> products);

constexpr int kStreamThreads = 288;
constexpr int kStreamRing = 8;  // most stages in shared memory
// Fills in what the launch chooses, for rows of x of `row_bytes` and `columns` of the tensor cores; returns the
// extents.
Extents stream_extents(Context& context, Stream& stream, int columns);

}  // namespace braid::cuda
