// One row of logits seen by one block: its order, its largest entry, the shares of its entries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/common/reduce.h"

namespace braid::cuda {

constexpr int kSampleThreads = 1024;

// Shares of the whole as whole numbers of 2^-45, so that their sums do not depend on the order.
using Mass = unsigned long long;
constexpr float kWhole = 0x1p45f;

__device__ inline Mass mass_of(float logit, float largest, float temperature) {
  return __float2ull_rn(expf((logit - largest) / temperature) * kWhole);
}

// Logits as whole numbers in the same order; -0 equals 0.
__device__ inline uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// An entry; NaN counts as -infinity. Earlier: the larger logit, then the lower index.
struct Entry {
  float logit = -INFINITY;
  int32_t index = INT32_MAX;
};

__device__ inline bool before(const Entry& a, const Entry& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.index < b.index);
}

__device__ inline Entry first_of_warp(Entry best) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Entry other{__shfl_xor_sync(kAllLanes, best.logit, offset), __shfl_xor_sync(kAllLanes, best.index, offset)};
    if (before(other, best)) best = other;
  }
  return best;
}

// Every thread gets it. `scratch` holds 32.
__device__ inline Entry first_of_block(Entry best, Entry* scratch) {
  best = first_of_warp(best);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
    if (before(scratch[warp], best)) best = scratch[warp];
  return best;
}

struct LogitRow {
  const float* logits;
  int32_t count;

  __device__ float at(int32_t i) const { return isnan(logits[i]) ? -INFINITY : logits[i]; }

  // Calls visit(index, logit) for every entry, each on one thread, in ascending order on each; several quads of entries
  // are asked for before the first is used.
  template <typename Visit>
  __device__ void each(Visit&& visit) const {
    const int32_t skipped = static_cast<int32_t>((16 - reinterpret_cast<uintptr_t>(logits) % 16) % 16 / 4);
    const int32_t head = min(count, skipped), quads = (count - head) / 4, tail = head + 4 * quads;
    const auto* from = reinterpret_cast<const float4*>(logits + head);
    const auto take = [&](int32_t i, float logit) { visit(i, isnan(logit) ? -INFINITY : logit); };
    if (threadIdx.x < static_cast<unsigned>(head)) take(threadIdx.x, logits[threadIdx.x]);
#pragma unroll 4
    for (int32_t q = threadIdx.x; q < quads; q += blockDim.x) {
      const float4 four = from[q];
      const int32_t i = head + 4 * q;
      take(i, four.x), take(i + 1, four.y), take(i + 2, four.z), take(i + 3, four.w);
    }
    for (int32_t i = tail + threadIdx.x; i < count; i += blockDim.x) take(i, logits[i]);
  }

  // The first entry above -infinity that comes after `last`; INT32_MAX where there is none. Every thread gets it.
  __device__ Entry next(const Entry& last, Entry* scratch) const {
    Entry best;
    each([&](int32_t i, float logit) {
      const Entry it{logit, i};
      if (it.logit > -INFINITY && before(last, it) && before(it, best)) best = it;
    });
    return first_of_block(best, scratch);
  }

  // log of the sum of exp(logit - largest).
  __device__ double log_sum(float largest, double* scratch) const {
    double sum = 0;
    each([&](int32_t, float logit) { sum += static_cast<double>(expf(logit - largest)); });
    return log(sum_of_block(sum, scratch));
  }
};

}  // namespace braid::cuda
