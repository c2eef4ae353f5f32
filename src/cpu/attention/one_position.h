// Attention of one position for a few query heads that share a head of the cache: decoding. Bound by the reading of
// keys and values, so they are read in the order in which they lie, and fetched ahead of their use.
//
// A key is multiplied with the queries lane by lane, and the lanes of kLanes keys are added up together by folding.
// Two numbers of 16 bits are taken apart by a shift and a mask, which leaves even and odd features in vectors of their
// own: queries and sums are kept in that order until the end. As in query_block.h, every sum runs over the keys that
// the row sees, in ascending order, and memory that it does not see is not read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/attention/query_block.h"

namespace braid::cpu::BRAID_ISA {

constexpr int64_t kMostHeads = 4;                         // what the registers hold
constexpr int64_t kKeysAtOnce = kLanes == 16 ? 4 : 2;     // multiplied side by side
constexpr int64_t kPairsAtOnce = kLanes == 16 ? 2 : 1;    // pairs of vectors of a value's features
constexpr int64_t kFeatures = kPairsAtOnce * 2 * kLanes;  // the head size is a multiple of this
constexpr int64_t kNearValues = 32;                       // values that stay in the L1 cache

// Of 2 kLanes numbers: the even and the odd ones where a lane holds two, else the first and the second half.
struct Halves {
  Vec first, second;
};
BRAID_INLINE Halves load_halves(const uint16_t* from) {
  const Ints pairs = bits_of(load(reinterpret_cast<const float*>(from)));
  return {from_bits(shift_left<16>(pairs)), from_bits(and_ints(pairs, splat_int(static_cast<int32_t>(0xFFFF0000))))};
}
BRAID_INLINE Halves load_halves(const float* from) { return {load(from), load(from + kLanes)}; }

// Brings a row into the order of load_halves, and back.
template <typename T>
inline void to_halves(const float* row, float* halves, int64_t size) {
  for (int64_t c = 0; c < size; c += 2 * kLanes)
    for (int64_t i = 0; i < kLanes; ++i) {
      halves[c + i] = row[sizeof(T) == 2 ? c + 2 * i : c + i];
      halves[c + kLanes + i] = row[sizeof(T) == 2 ? c + 2 * i + 1 : c + kLanes + i];
    }
}
template <typename T>
inline void from_halves(const float* halves, float* row, int64_t size) {
  for (int64_t c = 0; c < size; c += 2 * kLanes)
    for (int64_t i = 0; i < kLanes; ++i) {
      row[sizeof(T) == 2 ? c + 2 * i : c + i] = halves[c + i];
      row[sizeof(T) == 2 ? c + 2 * i + 1 : c + kLanes + i] = halves[c + kLanes + i];
    }
}

// Towards the L2 cache, the 2 kLanes numbers from `from` on.
template <typename T>
BRAID_INLINE void fetch(const T* from) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t d = 0; d < 2 * kLanes; d += kLine) __builtin_prefetch(from + d, 0, 2);
}

// The pair sums of both: lane i holds two lanes of `even` where i & kStep is 0, else of `odd`.
template <int kStep>
BRAID_INLINE Vec fold_two(Vec even, Vec odd) {
  constexpr std::make_integer_sequence<int, kLanes> kAll{};
  return exchanged<kStep, false>(even, odd, kAll) + exchanged<kStep, true>(even, odd, kAll);
}
// Folds kCount vectors into one, each into every kCount-th lane when kStep is 1; all kLanes: lane i is the sum of v[i].
template <int kStep, int kCount>
BRAID_INLINE Vec fold(Vec* v) {
  if constexpr (kCount == 1) {
    return v[0];
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) v[i] = fold_two<kStep>(v[2 * i], v[2 * i + 1]);
    return fold<2 * kStep, kCount / 2>(v);
  }
}

// Where the numbers of kKeys positions lie; positions outside of the range stand for its first one.
template <typename T>
struct KeyRows {
  const T* at[kKeys];

  KeyRows(const HeadPages& head, int64_t start, KeyRange range) {
    const BlockRuns found(head, range);
    for (const T*& row : at) row = head.pages->as<T>() + found.runs[0].offset;
    for (const PageRun* run = found.runs; run < found.runs + found.count; ++run)
      for (int64_t j = 0; j < run->count; ++j)
        at[run->first - start + j] = head.pages->as<T>() + run->offset + j * head.pages->stride(1);
  }
};

// scores[r, j] = q_r . key_j for the keys of `range`, counted from the block's first; `q` in the order of load_halves.
// Fetches the values of the same positions.
template <int kRows, typename T>
void score_position(const QueryBlock& block, const KeyRows<T>& keys, const KeyRows<T>& values, KeyRange range,
                    const float* q) {
  for (int64_t c = range.begin / kLanes * kLanes; c < range.end; c += kLanes) {
    Vec folded[kRows][kLanes / kKeysAtOnce];
#pragma GCC unroll 4
    for (int g = 0; g < kLanes / kKeysAtOnce; ++g) {
      const T *const *key = keys.at + c + g * kKeysAtOnce, *const *value = values.at + c + g * kKeysAtOnce;
      Vec sums[kRows][kKeysAtOnce];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int k = 0; k < kKeysAtOnce; ++k) sums[r][k] = zero();
      for (int64_t d = 0; d < block.size; d += 2 * kLanes) {
        Halves queries[kRows];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
          queries[r] = {load(q + r * block.size + d), load(q + r * block.size + d + kLanes)};
#pragma GCC unroll 4
        for (int k = 0; k < kKeysAtOnce; ++k) {
          const Halves numbers = load_halves(key[k] + d);
          fetch(value[k] + d);
#pragma GCC unroll 4
          for (int r = 0; r < kRows; ++r)
            sums[r][k] = fma(numbers.second, queries[r].second, fma(numbers.first, queries[r].first, sums[r][k]));
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) folded[r][g] = fold<1, kKeysAtOnce>(sums[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      store(block.scores + r * kScoreStride + c, fold<kKeysAtOnce, kLanes / kKeysAtOnce>(folded[r]));
  }
}

// state.values[r] += sum over `range` of share_rj value_j, in the order of load_halves. Fetches the keys of `next`.
template <int kRows, typename T>
void add_position(const QueryBlock& block, const KeyRows<T>& values, const KeyRows<T>& next, KeyRange range) {
  for (int64_t d = 0; d < block.size; d += kFeatures) {
    Vec sums[kRows][2 * kPairsAtOnce];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < 2 * kPairsAtOnce; ++i)
        sums[r][i] = load(block.state.values + r * block.stride + d + i * kLanes);
    for (int64_t j = range.begin; j < range.end; ++j) {
      Halves value[kPairsAtOnce];
#pragma GCC unroll 2
      for (int p = 0; p < kPairsAtOnce; ++p) {
        value[p] = load_halves(values.at[j] + d + p * 2 * kLanes);
        fetch(next.at[j] + d + p * 2 * kLanes);
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec share = splat(block.scores[r * kScoreStride + j]);
#pragma GCC unroll 2
        for (int p = 0; p < kPairsAtOnce; ++p) {
          sums[r][2 * p] = fma(share, value[p].first, sums[r][2 * p]);
          sums[r][2 * p + 1] = fma(share, value[p].second, sums[r][2 * p + 1]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < 2 * kPairsAtOnce; ++i)
        store(block.state.values + r * block.stride + d + i * kLanes, sums[r][i]);
  }
}

template <int kRows, typename T>
void attend_position(const QueryBlock& block, KeyRange range) {
  block.clear_state();
  const KeyRange all = common(range, block.seen());
  if (all.count() <= 0) return;
  float* q = block.columns;
  for (int r = 0; r < kRows; ++r) to_halves<T>(block.q + r * block.stride, q + r * block.size, block.size);
  const auto of = [&](int64_t start) { return common(all, {start, start + kKeys}); };
  int64_t start = all.begin / kKeys * kKeys;
  KeyRows<T> keys(block.keys, start, of(start));
  for (; start < all.end; start += kKeys) {
    const KeyRange here{of(start).begin - start, of(start).end - start};
    const KeyRows<T> values(block.values, start, of(start));
    score_position<kRows>(block, keys, values, here, q);
    for (int r = 0; r < kRows; ++r) take_scores(block, r, here);
    if (start + kKeys < all.end) keys = KeyRows<T>(block.keys, start + kKeys, of(start + kKeys));
    for (int64_t j = here.begin; j < here.end; j += kNearValues)
      add_position<kRows>(block, values, keys, common(here, {j, j + kNearValues}));
  }
  for (int r = 0; r < kRows; ++r) {
    from_halves<T>(block.state.values + r * block.stride, q, block.size);
    for (int64_t d = 0; d < block.size; d += kLanes) store(block.state.values + r * block.stride + d, load(q + d));
  }
}

// Attends over the keys of `range`, which begins and ends at multiples of kKeys, from an empty state on.
template <typename T>
void attend(const QueryBlock& block, KeyRange range) {
  if (block.positions > 1 || block.heads > kMostHeads || block.size % kFeatures != 0)
    return attend_block<T>(block, range);
  switch (block.heads) {
    case 1:
      return attend_position<1, T>(block, range);
    case 2:
      return attend_position<2, T>(block, range);
    case 3:
      return attend_position<3, T>(block, range);
    default:
      return attend_position<4, T>(block, range);
  }
}

}  // namespace braid::cpu::BRAID_ISA
