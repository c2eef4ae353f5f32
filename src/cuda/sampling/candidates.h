// The few tokens of a row that matter, sorted: each cut is a place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/rng.h"
#include "cuda/sampling/row.h"
#include "ops/sampling.h"

namespace braid::cuda {

// What a first kernel finds of a row: the largest entry of each of 1,024 runs of tokens, and by part, which are 8 runs,
// the sum of exp(logit - the part's largest logit).
constexpr int kRuns = kSampleThreads, kRunsOfPart = 8, kParts = kRuns / kRunsOfPart;

struct Survey {
  Entry* largest;  // [rows, kRuns]
  float2* parts;   // [rows, kParts]: largest logit, sum

  __device__ static int32_t length(int32_t count) { return (count + kRuns - 1) / kRuns; }
};

// The tokens that top_k may keep, in the order of their indices: few, so that searches among them are quick.
struct Candidates {
  static constexpr int kMost = 4096;
  float logits[kMost];
  Mass masses[kMost];
  int32_t tokens[kMost];
  int32_t runs[kRuns], counts[kRuns];
};

// Where thread t's `count` things begin when all threads' lie behind each other; `total` gets the sum.
__device__ inline int32_t place_among(int32_t count, int32_t& total) {
  __shared__ int32_t warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t upto = count;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, upto, offset);
    if (lane >= offset) upto += other;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  int32_t before_warp = 0;
  total = 0;
  for (int w = 0; w < kSampleThreads / 32; ++w) {
    if (w < warp) before_warp += warps[w];
    total += warps[w];
  }
  return before_warp + upto - count;
}

// Collects every token that may be among the `k` first; false, and nothing, when they do not fit. The largest logit of
// a run stands for one token at least, so the k-th largest of those, `largest` on each thread, is a bound, and only
// runs that reach it are looked at.
__device__ inline bool collect(const LogitRow& row, int32_t k, float largest, Candidates& out, int32_t& found) {
  if (k > kRuns) return false;
  const uint32_t mine = key_of(largest);
  uint32_t bound = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2)
    if (__syncthreads_count(mine >= (bound | bit)) >= k) bound |= bit;
  const bool reaches = largest > -INFINITY && mine >= bound;
  int32_t runs = 0;
  const int32_t place = place_among(reaches, runs);
  if (reaches) out.runs[place] = static_cast<int32_t>(threadIdx.x);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t length = Survey::length(row.count);
  // Calls visit(run's number, token, wanted) for all lanes together.
  const auto each = [&](auto&& visit) {
    for (int32_t n = warp; n < runs; n += kSampleThreads / 32) {
      const int32_t from = out.runs[n] * length, end = min(row.count, from + length);
      for (int32_t i = from; i < end; i += 32) {
        const bool inside = i + lane < end;
        const float logit = inside ? row.at(i + lane) : -INFINITY;
        visit(n, i + lane, logit, logit > -INFINITY && key_of(logit) >= bound);
      }
    }
  };
  out.counts[threadIdx.x] = 0;
  __syncthreads();
  each([&](int32_t n, int32_t, float, bool wanted) {
    const unsigned votes = __ballot_sync(kAllLanes, wanted);
    if (lane == 0) out.counts[n] += __popc(votes);
  });
  __syncthreads();
  const int32_t begin = place_among(out.counts[threadIdx.x], found);
  if (found > Candidates::kMost) return false;
  __syncthreads();
  out.counts[threadIdx.x] = begin;
  __syncthreads();
  each([&](int32_t n, int32_t token, float logit, bool wanted) {
    const unsigned votes = __ballot_sync(kAllLanes, wanted);
    const int32_t at = out.counts[n] + __popc(votes & ((1u << lane) - 1));
    if (wanted) out.logits[at] = logit, out.tokens[at] = token;
    __syncwarp();
    if (lane == 0) out.counts[n] += __popc(votes);
    __syncwarp();
  });
  __syncthreads();
  return true;
}

// The sums of all threads' values up to each.
__device__ inline Mass sum_up_to(Mass value, Mass* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const Mass other = __shfl_up_sync(kAllLanes, value, offset);
    if (lane >= offset) value += other;
  }
  __syncthreads();
  if (lane == 31) scratch[warp] = value;
  __syncthreads();
  for (int w = 0; w < warp; ++w) value += scratch[w];
  return value;
}

// Sorts `count` candidates, at most one a thread, into the order of choice; a thread gets the one of its place.
__device__ inline Entry sorted(const Candidates& from, int32_t count, Mass* keys) {
  int32_t size = 32;
  while (size < count) size *= 2;
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < size)
    keys[i] =
        i < count ? Mass{key_of(from.logits[i])} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(from.tokens[i])) : 0;
  __syncthreads();
  for (int32_t run = 2; run <= size; run *= 2)
    for (int32_t apart = run / 2; apart > 0; apart /= 2) {
      const int32_t other = i ^ apart;
      if (i < size && other > i && (keys[i] < keys[other]) == ((i & run) == 0)) {
        const Mass own = keys[i];
        keys[i] = keys[other], keys[other] = own;
      }
      __syncthreads();
    }
  if (i >= count) return {};
  const auto ordered = static_cast<uint32_t>(keys[i] >> 32);
  return {__uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered),
          static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(keys[i]))};
}

// A draw among few: sorted, each cut is a place. `mine` is the candidate at this thread's place.
__device__ inline int32_t draw_sorted(const Entry& mine, int32_t count, const SampleRow& how, float largest,
                                      Mass* scratch) {
  __shared__ int32_t token;
  const auto place = static_cast<int32_t>(threadIdx.x);
  const Mass mass = place < count ? mass_of(mine.logit, largest, how.temperature) : 0;
  const Mass up_to = sum_up_to(mass, scratch);
  const auto sum_of = [&](int32_t kept) {
    __syncthreads();
    if (place == kept - 1) scratch[32] = up_to;
    __syncthreads();
    return static_cast<double>(scratch[32]);
  };
  int32_t kept = min(count, how.top_k);
  if (how.top_p < 1.0f) {
    const double target = ceil(static_cast<double>(how.top_p) * sum_of(kept));
    kept = min(kept, __syncthreads_count(place < kept && static_cast<double>(up_to) < target) + 1);
  }
  const auto floor = static_cast<Mass>(ceil(static_cast<double>(how.min_p) * kWhole));
  kept = __syncthreads_count(place < kept && mass >= floor);
  const auto at = static_cast<Mass>(static_cast<double>(uniform(how.key, how.position, 0)) * sum_of(kept));
  const int32_t chosen = min(kept - 1, __syncthreads_count(place < kept && up_to <= at));
  if (place == chosen) token = mine.index;
  __syncthreads();
  return token;
}

}  // namespace braid::cuda
