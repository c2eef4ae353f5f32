// Draws without making the order of the tokens: what is kept is always the front of it, so a cut is a logit and a
// number of ties, found bit by bit from sums over the row. Slow, and right for every row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/rng.h"
#include "cuda/sampling/row.h"
#include "ops/sampling.h"

namespace braid::cuda {

// The front of the order: every token with a greater key, and `ties` of those with this one.
struct Front {
  uint32_t key = 0;
  Mass ties = 0;
  Mass tie_share = 0;  // of each of those
};

struct Found {
  uint32_t key = 0;
  Mass tie = 0, share = 0;  // the how-manieth of its key, and what each of them weighs
  bool there = false;
};

// Sums and searches over one row. `share` of a token: one for counting, its mass, or its mass unless below a floor.
struct Search {
  LogitRow row;
  const Mass* masses;  // null: count
  Mass floor = 0;
  Mass* scratch;

  __device__ Mass share(int32_t i) const {
    if (masses == nullptr) return 1;
    return masses[i] >= floor ? masses[i] : 0;
  }
  // Of the tokens of `front` with at least `key`.
  __device__ Mass sum(const Front& front, uint32_t key) const {
    Mass sum = 0;
    for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x) {
      const float logit = row.at(i);
      const uint32_t its = key_of(logit);
      if (logit > -INFINITY && its >= key && its > front.key) sum += share(i);
    }
    sum = sum_of_block(sum, scratch);
    const Mass tied = masses == nullptr ? 1 : front.tie_share >= floor ? front.tie_share : 0;
    return front.key >= key ? sum + front.ties * tied : sum;
  }
  // The first token of `front` at which the sum, itself included, exceeds `target`.
  __device__ Found find(const Front& front, Mass target) const {
    Found found;
    if (sum(front, 0) <= target) return found;
    for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2)
      if (sum(front, found.key | bit) > target) found.key |= bit;
    const Mass above = found.key == 0xFFFFFFFFu ? 0 : sum(front, found.key + 1);
    Mass largest = 0;
    for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x)
      if (row.at(i) > -INFINITY && key_of(row.at(i)) == found.key) largest = share(i) > largest ? share(i) : largest;
    found.share = largest_of_block(largest);
    found.tie = (target - above) / found.share;
    found.there = true;
    return found;
  }
  __device__ Mass largest_of_block(Mass value) const {
    for (int offset = 16; offset > 0; offset /= 2) {
      const Mass other = __shfl_xor_sync(kAllLanes, value, offset);
      value = other > value ? other : value;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) value = scratch[warp] > value ? scratch[warp] : value;
    return value;
  }
};

// The token that is number `tie` of those with `key`, by index.
__device__ inline int32_t tied_token(const LogitRow& row, uint32_t key, Mass tie) {
  __shared__ int32_t counts[kSampleThreads];
  __shared__ int32_t token;
  const int32_t length = (row.count + kSampleThreads - 1) / kSampleThreads, first = threadIdx.x * length;
  const int32_t end = min(row.count, first + length);
  const auto tied = [&](int32_t i) { return row.at(i) > -INFINITY && key_of(row.at(i)) == key; };
  int32_t count = 0;
  for (int32_t i = first; i < end; ++i) count += tied(i);
  __syncthreads();
  counts[threadIdx.x] = count;
  __syncthreads();
  int32_t skipped = 0;
  for (unsigned thread = 0; thread < threadIdx.x; ++thread) skipped += counts[thread];
  const auto wanted = static_cast<int64_t>(tie) - skipped;
  if (wanted >= 0 && wanted < count) {
    int32_t left = static_cast<int32_t>(wanted);
    for (int32_t i = first; i < end; ++i)
      if (tied(i) && left-- == 0) token = i;
  }
  __syncthreads();
  return token;
}

// A draw from any row, with room for its masses. 32 passes a cut.
__device__ inline int32_t draw_by_search(const LogitRow& row, const SampleRow& how, const Entry& first, Mass* masses,
                                         Mass* scratch) {
  for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x)
    masses[i] = mass_of(row.at(i), first.logit, how.temperature);
  __syncthreads();
  const Search counting{row, nullptr, 0, scratch}, weighing{row, masses, 0, scratch};
  Front front;
  if (how.top_k > 0) {
    const Found last = counting.find(front, static_cast<Mass>(how.top_k - 1));
    if (last.there) {
      const Found weight = weighing.find({}, weighing.sum({}, last.key) - 1);  // the mass of a token with that key
      front = {last.key, last.tie + 1, weight.key == last.key ? weight.share : 0};
    }
  }
  if (how.top_p < 1.0f) {
    const double target = ceil(static_cast<double>(how.top_p) * static_cast<double>(weighing.sum(front, 0)));
    const Found last = weighing.find(front, target >= 1 ? static_cast<Mass>(target) - 1 : 0);
    if (last.there) front = {last.key, last.tie + 1, last.share};
  }
  const Search drawing{row, masses, static_cast<Mass>(ceil(static_cast<double>(how.min_p) * kWhole)), scratch};
  const double total = static_cast<double>(drawing.sum(front, 0));
  const double at = static_cast<double>(uniform(how.key, how.position, 0)) * total;
  const Found found = drawing.find(front, static_cast<Mass>(at));
  return found.there ? tied_token(row, found.key, found.tie) : 0;
}

}  // namespace braid::cuda
