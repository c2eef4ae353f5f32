// The warp groups that make outputs, two of them in turns: o = since Q S + A u, normed and gated. The two blocks of a
// head exchange sums of squares. Those of chunk c lie in place c % 4: a block sends them when all warps of the other
// one have sent those of c - 2, and so have read those of c - 4, while one of them may still be about to read c - 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/recurrent/walk.h"

namespace braid::cuda {

// A thread has two rows of the chunk and four times four columns.
template <typename Q>
struct Outputs {
  static constexpr int kQuads = kColumns / 16;
  const DeltaView& d;
  const Walk& walk;
  Shared& shared;
  int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 4;
  int64_t channel = int64_t{walk.head} * kHead + walk.slice * kColumns + column;
  typename Q::Raw z[2][kQuads];
  float o[32], squares[2];

  __device__ void load_gates(int c) {
    const int last = walk.end(c) - walk.begin(c) - 1;
    const int64_t first = walk.run.start + walk.begin(c);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int q = 0; q < kQuads; ++q)
        z[i][q] = Q::load(d.z, (first + min(row + 8 * i, last)) * d.z.stride[0] + channel + 16 * q);
  }
  // Begins Q S.
  __device__ __forceinline__ void begin(const Stage& stage, int c) {
    const int at = c % 2;
    if (threadIdx.x % 128 == 0) barrier_expect(&shared.squares_filled[c % 4], kChunk * 4);
    barrier_wait(&shared.states_filled[at], c / 2 % 2);
    publish_to_copies();
    const uint32_t queries = shared_address(stage.heads) + 2 * kTileBytes, states = shared_address(shared.states[at]);
    begin_products();
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      const int offset = step / 4 * kTileBytes + step % 4 * 32;
      multiply_tiles(o, operand_at(queries + offset, 0), operand_at(states + offset, 0), step > 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void add_updates(const Stage& stage, int c) {
    const int at = c % 2;
    const uint32_t reads = shared_address(stage.mixes) + kMixRead * kTileBytes,
                   updates = shared_address(shared.updates[at]);
    const float since[2] = {stage.decays[0][row], stage.decays[0][row + 8]};
    barrier_wait(&shared.updates_filled[at], c / 2 % 2);
    publish_to_copies();
    wait_products<0>();
    settle(o);
    barrier_arrive(&shared.states_emptied[at]);
#pragma unroll
    for (int j = 0; j < 8; ++j)
      o[4 * j] *= since[0], o[4 * j + 1] *= since[0], o[4 * j + 2] *= since[1], o[4 * j + 3] *= since[1];
    begin_products();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step)
      multiply_tiles(o, operand_at(reads + step * 32, 0), operand_at(updates + step * 32, 0), true);
    commit_products();
    wait_products<0>();
    settle(o);
    barrier_arrive(&shared.updates_emptied[at]);
  }
  // Row i of the thread's two, columns 16 q and the next three.
  __device__ float4 quad(int i, int q) const {
    return {o[8 * q + 2 * i], o[8 * q + 2 * i + 1], o[8 * q + 2 * i + 4], o[8 * q + 2 * i + 5]};
  }
  __device__ __forceinline__ void send_squares(int c) {
    const int at = c % 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = 0;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const float4 x = quad(i, q);
        sum += (x.x * x.x + x.y * x.y) + (x.z * x.z + x.w * x.w);
      }
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      squares[i] = sum + __shfl_xor_sync(kAllLanes, sum, 2);
    }
    const int i = threadIdx.x % 4;
    if (i < 2)
      store_in(address_in(1 - walk.slice, &shared.squares[at][row + 8 * i]), i == 0 ? squares[0] : squares[1],
               address_in(1 - walk.slice, &shared.squares_filled[at]));
  }
  __device__ __forceinline__ void gate() {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float4 slope = *reinterpret_cast<const float4*>(shared.slope + column + 16 * q);
      const float4 offset = *reinterpret_cast<const float4*>(shared.offset + column + 16 * q);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 of = Q::widen(z[i][q]);
        o[8 * q + 2 * i] *= fmaf(of.x, slope.x, offset.x) * quick_sigmoid(of.x);
        o[8 * q + 2 * i + 1] *= fmaf(of.y, slope.y, offset.y) * quick_sigmoid(of.y);
        o[8 * q + 2 * i + 4] *= fmaf(of.z, slope.z, offset.z) * quick_sigmoid(of.z);
        o[8 * q + 2 * i + 5] *= fmaf(of.w, slope.w, offset.w) * quick_sigmoid(of.w);
      }
    }
  }
  __device__ __forceinline__ void write(int c) {
    const int at = c % 4, rows = walk.end(c) - walk.begin(c);
    const int64_t first = walk.run.start + walk.begin(c);
    barrier_wait(&shared.squares_filled[at], c / 4 % 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float factor = rsqrtf((squares[i] + shared.squares[at][row + 8 * i]) * (1.0f / kHead) + d.epsilon);
      if (row + 8 * i >= rows) continue;
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const float4 x = quad(i, q);
        Q::store(d.out, (first + row + 8 * i) * d.out.stride[0] + channel + 16 * q,
                 {x.x * factor, x.y * factor, x.z * factor, x.w * factor});
      }
    }
  }
};

// Every second chunk from chunk `first` on.
template <typename Q>
__device__ void finish_rows(const DeltaView& d, const Walk& walk, Shared& shared, int first) {
  if (first >= walk.chunks) return;
  Outputs<Q> x{d, walk, shared};
  x.load_gates(first);
  Turn turn;
  if (first == 1) turn.next();
  for (int c = first; c < walk.chunks; c += 2) {
    const Stage& stage = shared.stages[turn.slot];
    barrier_wait(&shared.filled[turn.slot], turn.round);
    x.begin(stage, c);
    x.add_updates(stage, c);
    release_stage(&shared.emptied[turn.slot]);
    x.send_squares(c);
    x.gate();
    x.write(c);
    if (c + 2 < walk.chunks) x.load_gates(c + 2);
    turn.next(), turn.next();
  }
}

}  // namespace braid::cuda
