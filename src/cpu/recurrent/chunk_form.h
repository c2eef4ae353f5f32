// The delta rule over the rows of a chunk at once, as small matrix products (semantics 3.8).
//
// With d(i, l) = product of the decays of rows l+1 .. i, and D the rows u of the rule:
//   L = beta_i d(i, l) k_i . k_l  (l < i)       (I + L) D = beta (V - d(i, start) K S)
//   O = d(i, start) Q S + A D,  A = d(i, l) q_i . k_l  (l <= i)       S <- d(end, start) S + K^T (d(end, l) D)
// The decays are multiplied up row by row, so that no exponential of a sum is needed and a decay of zero is exact.
// Columns of S are independent: they are worked on kTileWidth at a time, with that part of S and D in the L1 cache.
// Bound by multiply-adds: 3 rows Dk Dv + rows^2 Dv, and rows^2 Dk a key head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/recurrent/segment.h"

namespace braid::cpu::BRAID_ISA {

// What the value heads of one key head share, and buffers for one value head. Strides: kChunkStride, but d and part:
// kTileWidth.
struct ChunkProducts {
  float* k_columns = nullptr;    // [key size, chunk]: k transposed
  float* kk = nullptr;           // [chunk, chunk]: k_i . k_l, tiles on and below the diagonal
  float* qk = nullptr;           // [chunk, chunk]: q_i . k_l, likewise
  float* lower = nullptr;        // [chunk, chunk]: -L
  float* mix = nullptr;          // [chunk, chunk]: A
  float* since_start = nullptr;  // [chunk]: d(i, start)
  float* to_end = nullptr;       // [chunk]: d(end, i)
  float* d = nullptr;            // [chunk, kTileWidth]
  float* part = nullptr;         // [key size up to whole tiles, kTileWidth]: columns of S
};

// Fills kk and qk from the segment's q and k.
inline void multiply_keys(const Segment& segment, const ChunkProducts& products) {
  const int64_t rows = segment.padded_rows(), columns = round_up(segment.rows, kTileWidth);
  for (int64_t i = 0; i < segment.rows; ++i)
    for (int64_t c = 0; c < segment.key_size; ++c)
      products.k_columns[c * kChunkStride + i] = segment.k[i * segment.key_stride + c];
  for (int64_t c = 0; c < segment.key_size; ++c)
    for (int64_t i = segment.rows; i < columns; ++i) products.k_columns[c * kChunkStride + i] = 0.0f;
  for (int64_t i = 0; i < rows; i += kTileHeight) {
    for (int64_t l = 0; l < i + kTileHeight; l += kTileWidth) {
      const RightOperand<float> right{products.k_columns + l, kChunkStride};
      Tile<kTileHeight> tile;
      tile.clear();
      tile.add_product({segment.k + i * segment.key_stride, segment.key_stride, 1}, right, segment.key_size);
      tile.store_to(products.kk + i * kChunkStride + l, kChunkStride);
      tile.clear();
      tile.add_product({segment.q + i * segment.key_stride, segment.key_stride, 1}, right, segment.key_size);
      tile.store_to(products.qk + i * kChunkStride + l, kChunkStride);
    }
  }
}

// Fills lower, mix, since_start and to_end for the decays and betas of one value head.
inline void apply_gates(const Segment& segment, const ChunkProducts& products) {
  alignas(64) float decays[kChunkRows + kLanes] = {};  // d(i, l) over l
  float since_start = 1.0f;
  for (int64_t i = 0; i < segment.padded_rows(); ++i) {
    const float decay = i < segment.rows ? segment.decay[i] : 1.0f;
    const Vec negative_beta = splat(i < segment.rows ? -segment.beta[i] : 0.0f);
    float* lower = products.lower + i * kChunkStride;
    float* mix = products.mix + i * kChunkStride;
    const int64_t end = round_up(i + 1, kTileHeight);
    int64_t l = 0;
    for (; l < end; l += kLanes) {
      const Vec d = splat(decay) * load(decays + l);
      store(decays + l, d);
      store(lower + l, negative_beta * d * load(products.kk + i * kChunkStride + l));
      store(mix + l, d * load(products.qk + i * kChunkStride + l));
    }
    decays[i] = 1.0f;
    mix[i] = products.qk[i * kChunkStride + i];
    since_start *= decay;
    products.since_start[i] = since_start;
  }
  for (int64_t i = 0; i < segment.rows; ++i) products.to_end[i] = decays[i];
}

// Rows [row, row + kTileHeight) of D by forward substitution; the rows above are known.
inline void solve_rows(const Segment& segment, const ChunkProducts& products, int64_t row, const float* v) {
  Tile<kTileHeight> tile;
  tile.clear();
  tile.add_product({segment.k + row * segment.key_stride, segment.key_stride, 1},
                   RightOperand<float>{products.part, kTileWidth}, segment.key_size);
#pragma GCC unroll 8
  for (int i = 0; i < kTileHeight; ++i) {
    const Vec since_start = splat(products.since_start[row + i]), beta = splat(segment.beta[row + i]);
    const float* values = v + (row + i) * segment.value_stride;
    tile.at[i][0] = beta * fnma(since_start, tile.at[i][0], load(values));
    tile.at[i][1] = beta * fnma(since_start, tile.at[i][1], load(values + kLanes));
  }
  const float* lower = products.lower + row * kChunkStride;
  tile.add_product({lower, kChunkStride, 1}, RightOperand<float>{products.d, kTileWidth}, row);
#pragma GCC unroll 8
  for (int i = 1; i < kTileHeight; ++i) {
#pragma GCC unroll 8
    for (int l = 0; l < i; ++l) {
      const Vec factor = splat(lower[i * kChunkStride + row + l]);
      tile.at[i][0] = fma(factor, tile.at[l][0], tile.at[i][0]);
      tile.at[i][1] = fma(factor, tile.at[l][1], tile.at[i][1]);
    }
  }
  tile.store_to(products.d + row * kTileWidth, kTileWidth);
}

inline void output_rows(const Segment& segment, const ChunkProducts& products, int64_t row, float* o) {
  Tile<kTileHeight> tile;
  tile.clear();
  tile.add_product({segment.q + row * segment.key_stride, segment.key_stride, 1},
                   RightOperand<float>{products.part, kTileWidth}, segment.key_size);
#pragma GCC unroll 8
  for (int i = 0; i < kTileHeight; ++i) {
    const Vec since_start = splat(products.since_start[row + i]);
    tile.at[i][0] = since_start * tile.at[i][0];
    tile.at[i][1] = since_start * tile.at[i][1];
  }
  tile.add_product({products.mix + row * kChunkStride, kChunkStride, 1}, RightOperand<float>{products.d, kTileWidth},
                   row + kTileHeight);
  tile.store_to(o + row * segment.value_stride, segment.value_stride);
}

// Columns of the state, `stride` apart from row to row, of which the first `count` exist.
struct StateColumns {
  float* data;
  int64_t stride, count;
};

inline void copy_in(const StateColumns& state, const ChunkProducts& products, int64_t key_size) {
  for (int64_t k = 0; k < key_size; ++k) {
    for (int64_t c = 0; c < kTileWidth; c += kLanes) {
      const int64_t left = state.count - c;
      const float* from = state.data + k * state.stride + c;
      store(products.part + k * kTileWidth + c, left > 0 ? load_as(from, left) : zero());
    }
  }
}

inline void write_state(const Segment& segment, const ChunkProducts& products, const StateColumns& state) {
  const Vec whole = splat(products.since_start[segment.rows - 1]);
  for (int64_t k = 0; k < segment.key_size; k += kTileHeight) {
    Tile<kTileHeight> tile;
#pragma GCC unroll 8
    for (int i = 0; i < kTileHeight; ++i) {
      tile.at[i][0] = whole * load(products.part + (k + i) * kTileWidth);
      tile.at[i][1] = whole * load(products.part + (k + i) * kTileWidth + kLanes);
    }
    tile.add_product({segment.k + k, 1, segment.key_stride}, RightOperand<float>{products.d, kTileWidth}, segment.rows);
    if (state.count >= kTileWidth && k + kTileHeight <= segment.key_size) {
      tile.store_to(state.data + k * state.stride, state.stride);
      continue;
    }
    for (int i = 0; i < kTileHeight && k + i < segment.key_size; ++i) {
      float* to = state.data + (k + i) * state.stride;
      for (int h = 0; h < 2; ++h) {
        const int64_t left = state.count - h * kLanes;
        if (left > 0) store_as(to + h * kLanes, tile.at[i][h], left);
      }
    }
  }
}

// Advances `state` [key_size, value_size] over all rows of the segment; multiply_keys has run.
inline void run_chunk_form(const Segment& segment, const ChunkProducts& products, float* state) {
  apply_gates(segment, products);
  const int64_t padded = segment.padded_rows();
  for (int64_t column = 0; column < segment.value_size; column += kTileWidth) {
    const StateColumns columns{state + column, segment.value_size, segment.value_size - column};
    copy_in(columns, products, segment.key_size);
    for (int64_t row = 0; row < padded; row += kTileHeight) solve_rows(segment, products, row, segment.v + column);
    for (int64_t row = 0; row < padded; row += kTileHeight) output_rows(segment, products, row, segment.o + column);
    for (int64_t i = 0; i < segment.rows; ++i) {
      float* d = products.d + i * kTileWidth;
      store(d, splat(products.to_end[i]) * load(d));
      store(d + kLanes, splat(products.to_end[i]) * load(d + kLanes));
    }
    write_state(segment, products, columns);
  }
}

}  // namespace braid::cpu::BRAID_ISA
