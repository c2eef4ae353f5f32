// One row of logits seen by one block: its order, its largest entry, its log of the sum of exponentials.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/common/reduce.h"

namespace braid::cuda {

constexpr int kSampleThreads = 1024;

// An entry; NaN counts as -infinity. Earlier: the larger logit, then the lower index.
struct Entry {
  float logit = -INFINITY;
  int32_t index = INT32_MAX;
};

__device__ inline bool before(const Entry& a, const Entry& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.index < b.index);
}

struct LogitRow {
  const float* logits;
  int32_t count;

  __device__ float at(int32_t i) const { return isnan(logits[i]) ? -INFINITY : logits[i]; }

  // The first entry above -infinity that comes after `last`; INT32_MAX where there is none. Every thread gets it.
  __device__ Entry next(const Entry& last, Entry* scratch) const {
    Entry best;
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
      const Entry it{at(i), i};
      if (it.logit > -INFINITY && before(last, it) && before(it, best)) best = it;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const Entry other{__shfl_xor_sync(kAllLanes, best.logit, offset), __shfl_xor_sync(kAllLanes, best.index, offset)};
      if (before(other, best)) best = other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp)
      if (before(scratch[warp], best)) best = scratch[warp];
    return best;
  }

  // log of the sum of exp(logit - largest).
  __device__ double log_sum(float largest, double* scratch) const {
    double sum = 0;
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) sum += static_cast<double>(expf(at(i) - largest));
    return log(sum_of_block(sum, scratch));
  }
};

}  // namespace braid::cuda
