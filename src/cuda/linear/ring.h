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
struct RingSource {
  CUtensorMap map, groups;  // of codes, and of NVFP4's scales of groups
  View out;
  const float* scales = nullptr;
  int32_t scale_columns = 0, scale_rows = 0;
  int32_t block_shift = 0;  // so many rows share scales, as a power of two
  int32_t scale_step = 0;   // scales from a chunk of a row to the next
  int32_t rows = 0;         // of one matrix
  int32_t first_tile = 0;
};

// What tiles are.
// Rows: 16 rows of a source (gated: 8 rows of gate and the 8 of up that belong to them), with all rows of x.
// Chosen: 8 + 8 rows of gate and up of the expert in one slot of one row of x (source 0), after all slots those of the
// shared expert (source 1); out is `hidden`: per row of x the slots' values, then the shared expert's.
// Joined: 16 outputs of one row of x, the sum over its slots and the shared expert, columns of `hidden` after each
// other.
enum class RingMode { Rows, Chosen, Joined };

enum class RingForm { Bf16, Fp8, Int8, Nvfp4 };

struct Ring {
  RingSource sources[4];
  int32_t source_count = 0, tiles = 0;
  int32_t chunks = 0;  // of a tile: 128 bytes of each of its rows
  bool gated = false;
  View x;
  View out;  // of Chosen and Joined
  int32_t tokens = 0;
  // Of experts.
  const int32_t* chosen = nullptr;
  int64_t chosen_stride = 0;
  View weights, shared_gate;
  int32_t k = 0;
  int32_t slot_chunks = 0;  // Joined: of one slot
  // What the launch chooses.
  int32_t ring = 0;    // chunks of a warp in shared memory
  int32_t x_rows = 0;  // rows of x in shared memory
};

// Columns of the weight in a chunk.
int32_t ring_chunk_columns(Coding coding);
// Whether the weight has a form for this kernel, on this device.
bool has_ring(const Context& context, const Codes& codes);
// How many rows of x fit beside the weights; at most 16.
int64_t ring_rows(const Codes& codes);
// Gated, or of Chosen: `paired`.
RingSource ring_source(const Codes& codes, bool paired);
// Products that share x, their weights of one coding; gated: one. More rows of x than fit take several launches.
void multiply_decoded(Context& context, std::span<const Product> products);

}  // namespace braid::cuda
