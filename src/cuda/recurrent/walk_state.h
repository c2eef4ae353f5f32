// The four warps that walk: they keep the block's columns of the state, transposed, in registers. Every product takes
// its left operand from the sums of the one before and its right operand from shared memory. What the outputs need, the
// state before a chunk and its u, goes to shared memory beside the products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/recurrent/walk.h"

namespace braid::cuda {

// Sums as left operands.
template <int kPairs>
__device__ __forceinline__ void pack(const float (&sums)[2 * kPairs], uint32_t (&out)[kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) out[i] = half_pair(sums[2 * i], sums[2 * i + 1]);
}

// out [64 x 64] = left [64 x 128] * tile^T, the tile [64 rows x 128] in two tiles of 64 columns.
__device__ __forceinline__ void multiply_head(float (&out)[32], const uint32_t (&left)[32], uint32_t tile) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step)
    multiply<kChunk, 0>(out, left + 4 * step, operand_at(tile + step / 4 * kTileBytes + step % 4 * 32, 0), step > 0);
}

// out [64 x 64] = left [64 x 64] * tile^T.
__device__ __forceinline__ void multiply_tile(float (&out)[32], const uint32_t (&left)[16], uint32_t tile) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step)
    multiply<kChunk, 0>(out, left + 4 * step, operand_at(tile + step * 32, 0), step > 0);
}

// state [64 x 128] += left [64 x 64] * tile, the tile [64 rows x 128].
__device__ __forceinline__ void multiply_rows(float (&state)[64], const uint32_t (&left)[16], uint32_t tile) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step)
    multiply<kHead, 1>(state, left + 4 * step, operand_at(tile + step * 16 * 128, kTileBytes), true);
}

// v of this warp's 16 columns as the sums lie, in pairs of rows.
__device__ __forceinline__ void load_values(uint32_t (&out)[16], uint32_t at) {
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[2 * j]), "=r"(out[2 * j + 1]), "=r"(out[2 * j + 2]), "=r"(out[2 * j + 3])
                 : "r"(at + 8 * j * 128));
}

// v of the lane's rows and columns, in f32: v[2 j] holds rows 8 j + 2 t, + 1 of column g, v[2 j + 1] those of g
// + 8.
__device__ __forceinline__ void widen(const uint32_t (&v)[16], float (&out)[32]) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const float2 pair = halves_of(v[j]);
    out[2 * j] = pair.x, out[2 * j + 1] = pair.y;
  }
}

// v - since p, where p has S^T k, as a left operand.
__device__ __forceinline__ void take_from(const float (&v)[32], const float* factors, const float (&p)[32],
                                          uint32_t (&out)[16]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(factors + 8 * j);
#pragma unroll
    for (int i = 4 * j; i < 4 * j + 4; i += 2)
      out[i / 2] = half_pair(fmaf(-factor.x, p[i], v[i]), fmaf(-factor.y, p[i + 1], v[i + 1]));
  }
}

// p times the factors of rows, as a left operand.
__device__ __forceinline__ void pack_scaled(const float (&p)[32], const float* factors, uint32_t (&out)[16]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(factors + 8 * j);
    out[2 * j] = half_pair(factor.x * p[4 * j], factor.y * p[4 * j + 1]);
    out[2 * j + 1] = half_pair(factor.x * p[4 * j + 2], factor.y * p[4 * j + 3]);
  }
}

// A matrix of 128 x 128 in memory: the strides of its rows, along keys, and columns.
struct Matrix {
  float* data;
  int row, column;
};

// This warp's 16 columns of the state between memory and sums.
template <bool kStore>
__device__ __forceinline__ void move_state(const Walk& walk, Matrix matrix, float (&s)[64]) {
  const int t = threadIdx.x % 4, first = walk.slice * kColumns + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int j = 0; j < 16; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& at = matrix.data[(8 * j + 2 * t + i % 2) * matrix.row + (first + i / 2 * 8) * matrix.column];
      kStore ? at = s[4 * j + i] : s[4 * j + i] = at;
    }
}

// Where column `column` of the block lies in `states` and `updates`: so that a lane's sums of a product with them are
// four neighbours in a row of the output.
__device__ __forceinline__ int tile_row(int column) {
  return column / 16 * 16 + column / 2 % 2 * 8 + column % 16 / 4 * 2 + column % 2;
}

// Four matrices of a left operand, to a tile of that kind.
__device__ __forceinline__ void store_operand(uint32_t at, const uint32_t* operand) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(operand[0]),
               "r"(operand[1]), "r"(operand[2]), "r"(operand[3])
               : "memory");
#endif
}

// A lane's places in tiles, which stay in registers: made anew for every chunk they are a part of its latency.
struct Places {
  uint32_t values, operands[4];  // of v; of columns 16 step .. 16 step + 15 of an operand
  uint32_t factors = threadIdx.x % 4 * 2;

  __device__ Places() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    const int row = tile_row(warp * 16 + lane / 8 % 2 * 8 + lane % 8);
    values = swizzled(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < 4; ++step) operands[step] = swizzled(row, step * 2 + lane / 16);
    settle(operands);
    asm volatile("" : "+r"(values), "+r"(factors));
  }
};

// The sums and operands of the four warps. kShows: outputs are wanted.
template <bool kShows>
struct Columns {
  float s[64], p[32];  // state; S^T k, then u
  float wide[32];
  uint32_t held[32], v[16], left[16], written[16];
  Places places;

  // Begins S^T k, and shows the state before chunk `c`.
  __device__ __forceinline__ void ask(Shared& shared, const Stage& stage, int c) {
    pack(s, held);
    begin_products();
    multiply_head(p, held, shared_address(stage.heads));
    commit_products();
    if constexpr (!kShows) return;
    const int at = c % 2;
    barrier_wait(&shared.states_emptied[at], (c / 2 + 1) % 2);
#pragma unroll
    for (int step = 0; step < 8; ++step)
      store_operand(shared_address(shared.states[at]) + step / 4 * kTileBytes + places.operands[step % 4],
                    held + 4 * step);
    barrier_arrive(&shared.states_filled[at]);
  }
  // From S^T k to the new state, which is left running.
  __device__ __forceinline__ void advance(Shared& shared, const Stage& stage, int c) {
    const int at = c % 2;
    barrier_wait(&shared.values_filled[at], c / 2 % 2);
    load_values(v, shared_address(shared.values[at]) + places.values);
    widen(v, wide);
    settle(wide);
    barrier_arrive(&shared.values_emptied[at]);
    wait_products<0>();
    settle(p), settle(held);
    take_from(wide, stage.decays[0] + places.factors, p, left);
    begin_products();
    multiply_tile(p, left, shared_address(stage.mixes));
    commit_products();
    const float whole = stage.decays[0][kChunk - 1];
#pragma unroll
    for (int i = 0; i < 64; ++i) s[i] *= whole;
    wait_products<0>();
    settle(p);
    pack_scaled(p, stage.decays[1] + places.factors, written);
    begin_products();
    multiply_rows(s, written, shared_address(stage.heads));
    commit_products();
    if constexpr (kShows) show_update(shared, c);
  }
  __device__ __forceinline__ void show_update(Shared& shared, int c) {
    const int at = c % 2;
    pack(p, left);
    barrier_wait(&shared.updates_emptied[at], (c / 2 + 1) % 2);
#pragma unroll
    for (int step = 0; step < 4; ++step)
      store_operand(shared_address(shared.updates[at]) + places.operands[step], left + 4 * step);
    barrier_arrive(&shared.updates_filled[at]);
  }
};

// Walks all chunks of the part from the state that `x` holds.
template <bool kShows>
__device__ void walk_state(Columns<kShows>& x, const Walk& walk, Shared& shared) {
  Turn turn;
  barrier_wait(&shared.filled[turn.slot], turn.round);
  for (int c = 0; c < walk.chunks; ++c) {
    const Stage& stage = shared.stages[turn.slot];
    uint64_t* emptied = &shared.emptied[turn.slot];
    turn.next();
    x.ask(shared, stage, c);
    x.advance(shared, stage, c);
    if (c + 1 < walk.chunks) barrier_wait(&shared.filled[turn.slot], turn.round);
    wait_products<0>();
    settle(x.s);
    release_stage(emptied);
  }
}

}  // namespace braid::cuda
