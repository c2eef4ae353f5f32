// Products of few rows of x on Hopper: weights stream through shared memory to the tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/common/codes.h"
#include "cuda/common/context.h"
#include "cuda/common/start.h"
#include "cuda/common/view.h"
#include "cuda/linear/product.h"
#include "cuda/residual/normed_row.h"

namespace braid::cuda {

// Of a weight: a tile's rows, of which chunks have 128 bytes each.
constexpr int kTileRows = 16, kChunkBytes = kTileRows * 128;

// One weight of a stream, and where its tiles lie among all of them.
struct RingSource {
  const uint8_t *codes = nullptr, *groups = nullptr;  // of the weight; groups: NVFP4's scales
  int64_t pitch = 0;                                  // bytes of a row of codes; of groups an eighth
  View out;
  const float* scales = nullptr;
  int32_t scale_columns = 0;
  int32_t block_shift = 0;  // so many rows share scales, as a power of two
  int32_t rows = 0;         // of one matrix
  int32_t first_tile = 0;
  int64_t matrix_bytes = 0, matrix_scales = 0;  // from one matrix to the next: of codes, and how many scales
};

enum class RingForm { Bf16, Fp8, Fp8Blocks, Int8, Nvfp4 };
// Warps of a block: more of them hide more of what decoding and many rows of x wait for.
constexpr int ring_warps(RingForm form, int64_t tokens) { return form == RingForm::Nvfp4 || tokens > 4 ? 12 : 8; }

// Where x comes from, and what a source is.
enum class RingInput {
  Rows,    // rows of x as they are
  Normed,  // one row that the launch adds up and normalises itself
  // One row that chose matrices of source 0. Slots: tiles of each choice follow each other, then those of source 1.
  // Joined: the row has columns for each choice, and then for source 1, and so has the weight.
  Slots,
  Joined
};

// Tiles are 16 rows of a source (gated: 8 rows of gate and the 8 of up that belong to them), with all rows of x.
struct Ring {
  RingSource sources[4];
  int32_t source_count = 0, tiles = 0;
  int32_t chunks = 0;  // of a tile: 128 bytes of each of its rows
  bool gated = false;
  View x;
  NormedRow norm;  // in place of x: its one row is yet to be made
  // Of one row with choices: which, at most 31, and what their part of x is multiplied by (Joined); last that of
  // source 1.
  const int32_t* chosen = nullptr;
  const float *weights = nullptr, *shared_gate = nullptr;  // the gate may be null
  int32_t choices = 0;
  int32_t choice_tiles = 0, choice_chunks = 0;  // of one
  int32_t tokens = 0;
  float* stream = nullptr;  // of one row and one source: what `out` is added to as well; may be null
  // What the launch chooses.
  int32_t ring = 0;         // chunks of a warp in shared memory
  int32_t early = 0;        // of these are asked for before x is
  int32_t most_chunks = 0;  // of a tile that a block multiplies
  int32_t parts = 0;        // sums of tiles that a block may leave to another
};

RingForm ring_form(const Codes& codes);
int64_t ring_columns(RingForm form);  // of the weight, in a chunk
RingSource ring_source(const Codes& codes);
// Tiles of one matrix.
int32_t ring_tiles(const Codes& codes, bool gated);
// The extents of a launch, for which it fills in what the launch chooses. Absent: it does not fit.
std::optional<Extents> ring_extents(Ring& s, RingForm form, int multiprocessors);

// Whether the weight has a form for this kernel, on this device.
bool has_ring(const Context& context, const Codes& codes);
// How many rows of x fit beside the weights; at most 16.
int64_t ring_rows(const Context& context, const Codes& codes, bool gated);
// Starts the kernel for one row that chose matrices: Slots or Joined.
void launch_choice_ring(Context& context, const Ring& s, RingForm form, RingInput input, const Extents& extents);
// Products that share x, their weights of one coding; gated: one. More rows of x than fit take several launches.
void multiply_ringed(Context& context, std::span<const Product> products);
// The same for x that is the normalised row, which the launch makes too. False, with nothing launched, where this does
// not fit.
bool multiply_ringed(Context& context, std::span<const Product> products, const NormedRow& row);

}  // namespace braid::cuda
