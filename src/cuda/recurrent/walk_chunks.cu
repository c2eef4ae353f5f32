// The chunks of a sequence one after the other, two blocks a value head with 64 columns of its state each. Four warps
// keep the state (walk_state.h), four make the values ahead (walk_values.h), eight the outputs behind (walk_outputs.h),
// one thread asks for tiles. A sequence of few heads is walked in parts at once, whose states at the start come from a
// first walk and join_parts.cu. Bounded by the latency of a chunk's three products in a row.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/start.h"
#include "cuda/recurrent/walk.h"
#include "cuda/recurrent/walk_outputs.h"
#include "cuda/recurrent/walk_state.h"
#include "cuda/recurrent/walk_values.h"

namespace braid::cuda {
namespace {

constexpr int kWalkThreads = 5 * 128;

// Brings the tiles of all chunks, each as soon as its stage is free; one thread does. Whoever measures needs keys and
// inverses only.
template <bool kMeasures>
__device__ void bring_tiles(const DeltaView& d, const ChunkTiles& tiles, const Walk& walk, Shared& shared) {
  constexpr uint32_t kHeads = (kMeasures ? kHeadTiles / 2 : kHeadTiles) * kTileBytes;
  constexpr uint32_t kMixes = (kMeasures ? kMixRead : kMixTiles) * kTileBytes;
  Turn turn;
  for (int c = 0; c < walk.chunks; ++c) {
    Stage& stage = shared.stages[turn.slot];
    uint64_t* filled = &shared.filled[turn.slot];
    const int64_t place = walk.place + c, mix = place * d.value_heads + walk.head;
    barrier_wait(&shared.emptied[turn.slot], turn.round ^ 1);
    barrier_expect(filled, kHeads + kMixes + sizeof(stage.decays));
    bulk_copy(stage.heads, tiles.heads + (place * d.key_heads + walk.group) * kHeadTiles * kTileBytes, kHeads, filled);
    bulk_copy(stage.mixes, tiles.mixes + mix * kMixTiles * kTileBytes, kMixes, filled);
    bulk_copy(stage.decays, tiles.decays + mix * kDecays * kChunk, sizeof(stage.decays), filled);
    turn.next();
  }
}

// The state from where the part begins to where it ends.
__device__ void walk_part(const DeltaView& d, const Walk& walk, const Parts& parts, Shared& shared) {
  float* own = state_of(d, walk.sequence, walk.head);
  float* from = parts.count == 1 ? own : parts.states + parts.at(d, walk.sequence, walk.head, walk.part);
  Columns<true> x;
  move_state<false>(walk, {from, kHead, 1}, x.s);
  walk_state(x, walk, shared);
  if (walk.last) move_state<true>(walk, {own, kHead, 1}, x.s);
}

// What the part adds to a state, or the matrix that carries a state over it.
__device__ void measure_part(const DeltaView& d, const Walk& walk, const Parts& parts, Shared& shared) {
  Columns<false> x;
  const int row = threadIdx.x % 4 * 2, column = walk.slice * kColumns + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 64; ++i) x.s[i] = walk.carries && i / 4 * 8 + row + i % 2 == column + i % 4 / 2 * 8 ? 1.0f : 0.0f;
  walk_state(x, walk, shared);
  if (walk.carries)
    move_state<true>(walk, {parts.moves + parts.at(d, walk.sequence, walk.head, walk.part), 1, kHead}, x.s);
  else
    move_state<true>(walk, {parts.states + parts.at(d, walk.sequence, walk.head, walk.part + 1), kHead, 1}, x.s);
}

__device__ void begin_barriers(Shared& shared, int readers) {
  for (int i = 0; i < kStages; ++i) barrier_init(&shared.filled[i], 1), barrier_init(&shared.emptied[i], readers);
  for (int i = 0; i < 2; ++i) {
    for (uint64_t* both : {shared.values_filled, shared.values_emptied, shared.states_filled, shared.states_emptied,
                           shared.updates_filled, shared.updates_emptied})
      barrier_init(both + i, 128);
  }
  for (uint64_t& squares : shared.squares_filled) barrier_init(&squares, 1);
  barriers_made();
}

// A third dimension of parts; of twice as many where it measures.
template <typename Q, bool kMeasures>
__global__ void __launch_bounds__(kWalkThreads, 1) walk_kernel(DeltaView d, ChunkTiles tiles, Parts parts) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  await_earlier();
  const Walk walk = Walk::of(d, parts, kMeasures);
  if (walk.chunks == 0 || (kMeasures && walk.last)) return;
  if (threadIdx.x == 0) begin_barriers(shared, kMeasures ? 4 : 8);
  if (threadIdx.x < kColumns) {
    const float norm = d.norm[walk.slice * kColumns + threadIdx.x];
    shared.slope[threadIdx.x] = d.silu_gate ? norm : 0.0f, shared.offset[threadIdx.x] = d.silu_gate ? 0.0f : norm;
  }
  cluster_sync();
  const int group = __shfl_sync(kAllLanes, threadIdx.x / 128, 0);
  if (group == 0) {
    raise_registers<168>();
    if constexpr (kMeasures)
      measure_part(d, walk, parts, shared);
    else
      walk_part(d, walk, parts, shared);
  } else if (group < 3) {
    lower_registers<96>();
    if constexpr (!kMeasures) finish_rows<Q>(d, walk, shared, group - 1);
  } else if (group == 3) {
    lower_registers<88>();
    make_values<Q>(d, walk, shared);
  } else {
    lower_registers<32>();
    if (threadIdx.x == 4 * 128) bring_tiles<kMeasures>(d, tiles, walk, shared);
  }
  __syncwarp();
  cluster_sync();  // a block's memory lives until the other one has written to it
}

}  // namespace

void walk_chunks(Context& context, const DeltaView& d, const ChunkTiles& tiles, const Parts& parts) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  const auto blocks = static_cast<unsigned>(2 * d.value_heads), sequences = static_cast<unsigned>(d.rows.sequences);
  const auto count = static_cast<unsigned>(parts.count);
  with_quads(d, [&](auto quads) {
    const auto run = [&](auto kernel, unsigned deep) {
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "shared memory");
      start(context, kernel,
            {.grid = dim3(blocks, sequences, deep), .block = kWalkThreads, .shared = kBytes, .cluster = 2}, d, tiles,
            parts);
    };
    if (count > 1) {
      run(walk_kernel<decltype(quads), true>, 2 * (count - 1));
      join_parts(context, d, parts);
    }
    run(walk_kernel<decltype(quads), false>, count);
  });
}

}  // namespace braid::cuda
