// Attention of a block of query rows over a range of keys, with the softmax carried along (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// The rows are those of a few consecutive positions and of all query heads that read one head of the cache, so that a
// key and a value are fetched once for all of them. Keys are taken kKeys at a time at absolute multiples of kKeys:
// transposed into the L1 cache, multiplied by tiles of rows, and the shares by values straight from their pages. Every
// sum of a row runs over the keys that the row sees, in ascending order, and over nothing else: its bits do not depend
// on the other rows of the block. Memory that no row of the block sees is not read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/attention/pages.h"
#include "cpu/attention/transpose.h"
#include "cpu/recurrent/tile.h"

namespace braid::cpu::BRAID_ISA {

constexpr int64_t kKeys = 64;
constexpr int64_t kScoreStride = kKeys + 16;

// Softmax so far of each row: largest score, sum of e^(score - largest), and the values weighted alike. No key yet:
// -infinity, 0, 0.
struct SoftmaxState {
  float *largest = nullptr, *sum = nullptr;  // [rows]
  float* values = nullptr;                   // [rows, stride]
};

struct QueryBlock {
  HeadPages keys, values;
  int64_t size = 0;                     // of a head
  int64_t stride = 0;                   // of rows of q and of state.values: whole tiles
  int64_t position = 0, positions = 0;  // the first, and how many
  int64_t heads = 0;                    // query heads of each position: row i stands at position + i div heads
  int64_t window = 0;
  float* q = nullptr;        // [rows, stride], times the softmax scale
  float* columns = nullptr;  // [size up to whole pairs of vectors, kTileWidth]: keys transposed
  float* scores = nullptr;   // [rows, kScoreStride]
  SoftmaxState state;

  int64_t rows() const { return positions * heads; }
  KeyRange seen_from(int64_t at) const { return {window > 0 && at >= window ? at - window + 1 : 0, at + 1}; }
  // What any row sees.
  KeyRange seen() const { return {seen_from(position).begin, position + positions}; }
  void clear_state() const {
    for (int64_t row = 0; row < rows(); ++row) {
      state.largest[row] = -__builtin_inff(), state.sum[row] = 0.0f;
      for (int64_t d = 0; d < stride; d += kLanes) store(state.values + row * stride + d, zero());
    }
  }
};

// Calls run.template operator()<kRows>(first row) until `rows` rows are covered, in tiles as large as fit.
template <typename Run>
BRAID_INLINE void for_tiles(int64_t rows, Run run) {
  int64_t row = 0;
  for (; row + kTileHeight <= rows; row += kTileHeight) run.template operator()<kTileHeight>(row);
  for (; kTileHeight > 4 && row + 4 <= rows; row += 4) run.template operator()<4>(row);
  for (; row + 2 <= rows; row += 2) run.template operator()<2>(row);
  for (; row < rows; ++row) run.template operator()<1>(row);
}

// Features of kLanes keys as columns.
inline void transpose_group(const QueryBlock& block, const float* const* keys, float* columns) {
  for (int64_t d = 0; d < block.size; d += kLanes) {
    Vec square[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) square[j] = keys[j] != nullptr ? load_as(keys[j] + d, block.size - d) : zero();
    transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(columns + (d + i) * kTileWidth, square[i]);
  }
}
// Pairs of bf16 move as one lane, and are taken apart at the end.
inline void transpose_group(const QueryBlock& block, const uint16_t* const* keys, float* columns) {
  for (int64_t d = 0; d < block.size; d += 2 * kLanes) {
    Vec square[kLanes];
#pragma GCC unroll 16
    for (int j = 0; j < kLanes; ++j) square[j] = keys[j] != nullptr ? load_pairs(keys[j] + d, block.size - d) : zero();
    transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      const Ints pairs = bits_of(square[i]);
      store(columns + (d + 2 * i) * kTileWidth, from_bits(shift_left<16>(pairs)));
      store(columns + (d + 2 * i + 1) * kTileWidth,
            from_bits(and_ints(pairs, splat_int(static_cast<int32_t>(0xFFFF0000)))));
    }
  }
}

// Where the keys or values of at most kKeys positions lie.
struct BlockRuns {
  PageRun runs[kKeys];
  int count = 0;

  BlockRuns(const HeadPages& head, KeyRange range) { count = find_runs(head, range, runs); }
};

// scores[i, j] = q_i . key_j for the keys [range) of the kKeys from `start` on, a tile of keys at a time.
template <typename T>
void score_keys(const QueryBlock& block, int64_t start, KeyRange range) {
  const BlockRuns found(block.keys, range);
  const T* keys[kKeys] = {};  // null where a key is not seen
  for (const PageRun* run = found.runs; run < found.runs + found.count; ++run)
    for (int64_t j = 0; j < run->count; ++j)
      keys[run->first - start + j] = block.keys.pages->as<T>() + run->offset + j * block.keys.pages->stride(1);
  for (int64_t c = (range.begin - start) / kTileWidth * kTileWidth; start + c < range.end; c += kTileWidth) {
    for (int64_t group = 0; group < kTileWidth; group += kLanes)
      transpose_group(block, keys + c + group, block.columns + group);
    for_tiles(block.rows(), [&]<int kRows>(int64_t row) {
      Tile<kRows> tile;
      tile.clear();
      tile.add_product({block.q + row * block.stride, block.stride, 1}, RightOperand<float>{block.columns, kTileWidth},
                       block.size);
      tile.store_to(block.scores + row * kScoreStride + c, kScoreStride);
    });
  }
}

// Turns a row's scores of [range), relative to the kKeys at hand, into e^(score - largest), and brings its state to the
// new largest score. Shares outside of the range become 0 up to whole vectors.
inline void take_scores(const QueryBlock& block, int64_t row, KeyRange range) {
  float* scores = block.scores + row * kScoreStride;
  const int64_t first = range.begin / kLanes * kLanes, end = round_up(range.end, kLanes);
  for (int64_t j = first; j < range.begin; ++j) scores[j] = -__builtin_inff();
  for (int64_t j = range.end; j < end; ++j) scores[j] = -__builtin_inff();
  const float before = block.state.largest[row];
  Vec top = splat(before);
  for (int64_t j = first; j < end; j += kLanes) top = maximum(load(scores + j), top);
  const float now = largest(top);
  Vec total = zero();
  for (int64_t j = first; j < end; j += kLanes) {
    const Vec share = exponential(load(scores + j) - splat(now));
    store(scores + j, share);
    total = total + share;
  }
  if (now != before) {
    const Vec factor = exponential(splat(before - now));
    float* values = block.state.values + row * block.stride;
    for (int64_t d = 0; d < block.size; d += kLanes) store(values + d, factor * load(values + d));
    block.state.sum[row] *= sum(factor) / kLanes;
    block.state.largest[row] = now;
  }
  block.state.sum[row] += sum(total);
}

// state.values[i] += sum over [range) of share_ij value_j for the rows [rows).
template <typename T>
void add_values(const QueryBlock& block, const BlockRuns& values, KeyRange rows, KeyRange range) {
  const T* data = block.values.pages->as<T>();
  const int64_t stride = block.values.pages->stride(1);
  for (int64_t c = 0; c < block.size; c += kTileWidth) {
    for_tiles(rows.count(), [&]<int kRows>(int64_t offset) {
      const int64_t row = rows.begin + offset;
      float* sums = block.state.values + row * block.stride + c;
      Tile<kRows> tile;
      tile.load_from(sums, block.stride);
      for (const PageRun* run = values.runs; run < values.runs + values.count; ++run) {
        const KeyRange here = common(range, {run->first, run->first + run->count});
        const T* from = data + run->offset + (here.begin - run->first) * stride + c;
        tile.add_product({block.scores + row * kScoreStride + here.begin % kKeys, kScoreStride, 1},
                         RightOperand<T>{from, stride, block.size - c}, here.count());
      }
      tile.store_to(sums, block.stride);
    });
  }
}

// Attends over the keys of `range`, which begins and ends at multiples of kKeys, from an empty state on.
template <typename T>
void attend_block(const QueryBlock& block, KeyRange range) {
  block.clear_state();
  const KeyRange all = common(range, block.seen());
  for (int64_t start = all.begin / kKeys * kKeys; start < all.end; start += kKeys) {
    const KeyRange here = common(all, {start, start + kKeys});
    score_keys<T>(block, start, here);
    for (int64_t i = 0; i < block.positions; ++i) {
      const KeyRange seen = common(here, block.seen_from(block.position + i));
      for (int64_t h = 0; h < block.heads && seen.count() > 0; ++h)
        take_scores(block, i * block.heads + h, {seen.begin - start, seen.end - start});
    }
    const BlockRuns values(block.values, here);
    const KeyRange first = block.seen_from(block.position),
                   last = block.seen_from(block.position + block.positions - 1);
    if (last.begin <= here.begin && first.end >= here.end) {
      add_values<T>(block, values, {0, block.rows()}, here);
      continue;
    }
    for (int64_t i = 0; i < block.positions; ++i)
      add_values<T>(block, values, {i * block.heads, (i + 1) * block.heads},
                    common(here, block.seen_from(block.position + i)));
  }
}

// Adds what `part` holds of a row to what `total` holds.
inline void merge(const SoftmaxState& total, const SoftmaxState& part, int64_t size) {
  if (*part.sum == 0.0f) return;
  if (*total.sum == 0.0f) {
    *total.largest = *part.largest, *total.sum = *part.sum;
    for (int64_t d = 0; d < size; d += kLanes) store(total.values + d, load(part.values + d));
    return;
  }
  const float now = *total.largest > *part.largest ? *total.largest : *part.largest;
  const Vec ours = exponential(splat(*total.largest - now)), theirs = exponential(splat(*part.largest - now));
  for (int64_t d = 0; d < size; d += kLanes)
    store(total.values + d, fma(theirs, load(part.values + d), ours * load(total.values + d)));
  *total.sum = *total.sum * (sum(ours) / kLanes) + *part.sum * (sum(theirs) / kLanes);
  *total.largest = now;
}

}  // namespace braid::cpu::BRAID_ISA
