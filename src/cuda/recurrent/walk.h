// What the warp groups of the walking kernel share: a block's columns and chunks, its memory and its barriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {

constexpr int kColumns = 64;  // of the state, a block
constexpr int kStages = 3;

struct alignas(1024) Stage {
  uint8_t heads[kHeadTiles * kTileBytes];
  uint8_t mixes[kMixTiles * kTileBytes];
  float decays[kDecays][kChunk];
};

struct Shared {
  Stage stages[kStages];
  uint8_t values[2][kTileBytes];  // v of the block's columns
  // The state before the chunk, transposed, a row a column in the order of `tile_row`; u in the same way.
  uint8_t states[2][2 * kTileBytes];
  uint8_t updates[2][kTileBytes];
  float squares[4][kChunk];                 // of the other block's columns
  float slope[kColumns], offset[kColumns];  // norm times the gate of z is (slope z + offset) sigmoid(z)
  uint64_t filled[kStages], emptied[kStages];
  uint64_t values_filled[2], values_emptied[2];
  uint64_t states_filled[2], states_emptied[2];
  uint64_t updates_filled[2], updates_emptied[2];
  uint64_t squares_filled[4];
};

// A stage of the ring and how often the ring went round.
struct Turn {
  int slot = 0;
  uint32_t round = 0;

  __device__ void next() {
    if (++slot == kStages) slot = 0, round ^= 1;
  }
};

// The columns of a block and the chunks of its part.
struct Walk {
  int head, group, slice;
  int32_t sequence;
  int part, chunks, first;  // first: index of its first chunk
  bool last;                // of the sequence's parts
  bool carries = false;     // measures the matrix that carries a state over the part
  int64_t place;
  Run run;

  __device__ static Walk of(const DeltaView& d, const Parts& parts, bool measures) {
    Walk w;
    w.slice = static_cast<int>(cluster_rank()), w.head = static_cast<int>(blockIdx.x) / 2;
    w.group = w.head / (d.value_heads / d.key_heads), w.sequence = static_cast<int32_t>(blockIdx.y);
    w.part = static_cast<int>(blockIdx.z);
    if (measures) w.carries = w.part % 2 == 1, w.part /= 2;
    w.run = Run::of(d.rows, w.sequence);
    const int all = w.run.chunks(), from = w.part * parts.each(w.run), to = min(from + parts.each(w.run), all);
    w.chunks = __shfl_sync(kAllLanes, max(to - from, 0), 0);
    w.last = to == all;
    w.first = w.run.first_chunk() + from, w.place = first_place(d.rows, w.sequence) + w.first;
    return w;
  }
  // Rows of chunk `c` of the part, from the sequence's start on.
  __device__ int begin(int c) const { return run.begin(first + c); }
  __device__ int end(int c) const { return run.end(first + c); }
};

// One arrival a warp, behind what its lanes read.
__device__ __forceinline__ void release_stage(uint64_t* emptied) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(emptied);
}

}  // namespace braid::cuda
