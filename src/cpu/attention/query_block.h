// Attention of a block of query rows over a range of keys, with the softmax carried along (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// The rows are those of a few consecutive positions and of all query heads that read one head of the cache, so that a
// key and a value are fetched once for all of them. Keys are taken kKeys at a time at absolute multiples of kKeys:
// transposed into the L1 cache, multiplied by tiles of rows, and the shares by values straight from their pages. Every
// sum of a row runs over the keys that the row sees, in ascending order, and over nothing else: its bits do not depend
// on the other rows of the block. Memory that no row of the block sees is not read. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/attention/pages.h"
#include "cpu/attention/transpose.h"
#include "cpu/recurrent/tile.h"

namespace braid::cpu::BRAID_ISA {

constexpr int64_t kKeys = 64;
constexpr int64_t kScoreStride = kKeys + 16;

struct KeyRange {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

inline KeyRange common(KeyRange a, KeyRange b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

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
  float* columns = nullptr;  // [size up to whole vectors, kKeys]: keys transposed
  float* scores = nullptr;   // [rows, kScoreStride]
  SoftmaxState state;

  int64_t rows() const { return positions * heads; }
  KeyRange seen_from(int64_t at) const { return {window > 0 && at >= window ? at - window + 1 : 0, at + 1}; }
  // What any row sees.
  KeyRange seen() const { return {seen_from(position).begin, position + positions}; }
};

// Calls run.template operator()<kRows>(first row) until `rows` rows are covered, in tiles as large as fit.
template <typename Run>
BRAID_INLINE void for_tiles(int64_t rows, Run run) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) run.template operator()<kTileRows>(row);
  for (; kTileRows > 4 && row + 4 <= rows; row += 4) run.template operator()<4>(row);
  for (; row + 2 <= rows; row += 2) run.template operator()<2>(row);
  for (; row < rows; ++row) run.template operator()<1>(row);
}

// Keys [range) of the kKeys from `start` on as columns.
template <typename T>
void transpose_keys(const QueryBlock& block, int64_t start, KeyRange range) {
  const T* data = block.keys.pages->as<T>();
  for (int64_t group = (range.begin - start) / kLanes * kLanes; start + group < range.end; group += kLanes) {
    const T* keys[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      const int64_t position = start + group + j;
      keys[j] = position >= range.begin && position < range.end ? data + block.keys.offset(position) : nullptr;
    }
    for (int64_t d = 0; d < block.size; d += kLanes) {
      Vec square[kLanes];
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) square[j] = keys[j] != nullptr ? load_as(keys[j] + d, block.size - d) : zero();
      transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) store(block.columns + (d + i) * kKeys + group, square[i]);
    }
  }
}

// scores[i, j] = q_i . key_j for the tiles of columns that hold [range).
inline void multiply_queries(const QueryBlock& block, int64_t start, KeyRange range) {
  for (int64_t c = (range.begin - start) / kTileColumns * kTileColumns; start + c < range.end; c += kTileColumns) {
    for_tiles(block.rows(), [&]<int kRows>(int64_t row) {
      Tile<kRows> tile;
      tile.clear();
      tile.add_product({block.q + row * block.stride, block.stride, 1}, RightOperand<float>{block.columns + c, kKeys},
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

// state.values[i] += sum over [range) of share_ij value_j for `rows` rows from `first` on.
template <typename T>
void add_values(const QueryBlock& block, KeyRange rows, int64_t start, KeyRange range) {
  const T* data = block.values.pages->as<T>();
  const int64_t page_size = block.values.page_size(), stride = block.values.pages->stride(1);
  for (int64_t c = 0; c < block.size; c += kTileColumns) {
    for_tiles(rows.count(), [&]<int kRows>(int64_t offset) {
      const int64_t row = rows.begin + offset;
      float* values = block.state.values + row * block.stride + c;
      Tile<kRows> tile;
      tile.load_from(values, block.stride);
      for (int64_t j = range.begin; j < range.end;) {
        const int64_t page_end = (j / page_size + 1) * page_size;
        const int64_t count = (page_end < range.end ? page_end : range.end) - j;
        tile.add_product({block.scores + row * kScoreStride + j - start, kScoreStride, 1},
                         RightOperand<T>{data + block.values.offset(j) + c, stride, block.size - c}, count);
        j += count;
      }
      tile.store_to(values, block.stride);
    });
  }
}

// Attends over the keys of `range`, which begins and ends at multiples of kKeys, from an empty state on.
template <typename T>
void attend(const QueryBlock& block, KeyRange range) {
  for (int64_t row = 0; row < block.rows(); ++row) {
    block.state.largest[row] = -__builtin_inff(), block.state.sum[row] = 0.0f;
    for (int64_t d = 0; d < block.stride; d += kLanes) store(block.state.values + row * block.stride + d, zero());
  }
  const KeyRange all = common(range, block.seen());
  for (int64_t start = all.begin / kKeys * kKeys; start < all.end; start += kKeys) {
    const KeyRange here = common(all, {start, start + kKeys});
    transpose_keys<T>(block, start, here);
    multiply_queries(block, start, here);
    for (int64_t i = 0; i < block.positions; ++i) {
      const KeyRange seen = common(here, block.seen_from(block.position + i));
      for (int64_t h = 0; h < block.heads && seen.count() > 0; ++h)
        take_scores(block, i * block.heads + h, {seen.begin - start, seen.end - start});
    }
    const KeyRange first = block.seen_from(block.position),
                   last = block.seen_from(block.position + block.positions - 1);
    if (last.begin <= here.begin && first.end >= here.end) {
      add_values<T>(block, {0, block.rows()}, start, here);
      continue;
    }
    for (int64_t i = 0; i < block.positions; ++i)
      add_values<T>(block, {i * block.heads, (i + 1) * block.heads}, start,
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
