// Draws from whole rows: the tokens are counted into bins by how far they lie below the largest, which is their order,
// and only those of the bin that holds a cut are sorted. Two passes a cut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/sampling/candidates.h"

namespace braid::cuda {

// Of 1/128 of the temperature; tokens beyond the last one have no mass.
constexpr int kBins = 4096, kBinsPerUnit = 128;

struct Bins {
  Mass masses[kBins];
  Candidates tokens;
  int32_t count;
};

// One row's draw, seen by a block.
struct BinnedRow {
  LogitRow row;
  const SampleRow& how;
  float largest;
  Bins& bins;
  Mass* scratch;  // 33

  __device__ int bin_of(float logit) const {
    return static_cast<int>(fminf((largest - logit) / how.temperature * kBinsPerUnit, kBins - 1));
  }
  // Calls visit(token, logit, mass) for the tokens up to `last` with at least `floor` of mass.
  template <typename Visit>
  __device__ void each(const Entry& last, Mass floor, Visit&& visit) const {
    row.each([&](int32_t i, float logit) {
      const Mass mass = mass_of(logit, largest, how.temperature);
      if (mass > 0 && mass >= floor && !before(last, {logit, i})) visit(i, logit, mass);
    });
  }
  // Of those, the first at which the sum, itself included, is more than `target` says of their sum. No token: there are
  // too many in its bin.
  template <typename Target>
  __device__ Entry find(const Entry& last, Mass floor, Target&& target) const {
    constexpr int kEach = kBins / kSampleThreads;
    for (int bin = threadIdx.x; bin < kBins; bin += kSampleThreads) bins.masses[bin] = 0;
    if (threadIdx.x == 0) bins.count = 0;
    __syncthreads();
    each(last, floor, [&](int32_t, float logit, Mass mass) { atomicAdd(&bins.masses[bin_of(logit)], mass); });
    __syncthreads();
    Mass own[kEach], all = 0;
    for (int i = 0; i < kEach; ++i) own[i] = bins.masses[threadIdx.x * kEach + i], all += own[i];
    const Mass up_to = sum_up_to(all, scratch);
    if (threadIdx.x == kSampleThreads - 1) scratch[32] = up_to;
    __syncthreads();
    const Mass wanted = target(scratch[32]);
    int below = 0;
    Mass sum = up_to - all;
    for (int i = 0; i < kEach; ++i) below += (sum += own[i]) <= wanted;
    int bin = 0;
    for (int i = 1; i <= kEach; ++i) bin += __syncthreads_count(below >= i);
    bin = min(bin, kBins - 1);
    __syncthreads();
    if (bin / kEach == static_cast<int>(threadIdx.x)) {
      sum = up_to - all;
      for (int i = 0; i < bin % kEach; ++i) sum += own[i];
      scratch[32] = sum;
    }
    __syncthreads();
    const Mass above = scratch[32];
    each(last, floor, [&](int32_t token, float logit, Mass) {
      if (bin_of(logit) != bin) return;
      const int32_t at = atomicAdd(&bins.count, 1);
      if (at < kSampleThreads) bins.tokens.logits[at] = logit, bins.tokens.tokens[at] = token;
    });
    __syncthreads();
    const int32_t count = bins.count;
    if (count > kSampleThreads || count == 0) return {};
    return pick(sorted(bins.tokens, count, bins.tokens.masses), count, above, wanted);
  }

 private:
  __device__ Entry pick(const Entry& mine, int32_t count, Mass above, Mass wanted) const {
    __shared__ Entry found;
    const auto place = static_cast<int32_t>(threadIdx.x);
    const Mass mass = place < count ? mass_of(mine.logit, largest, how.temperature) : 0;
    const Mass up_to = above + sum_up_to(mass, scratch);
    const int32_t chosen = min(count - 1, __syncthreads_count(place < count && up_to <= wanted));
    if (place == chosen) found = mine;
    __syncthreads();
    return found;
  }
};

// The token drawn, without regard to top_k; -1: not this way.
__device__ inline int32_t draw_by_bins(const BinnedRow& row) {
  Entry last{-INFINITY, INT32_MAX};
  if (row.how.top_p < 1.0f) {
    last = row.find(last, 0, [&](Mass total) {
      const double target = ceil(static_cast<double>(row.how.top_p) * static_cast<double>(total));
      return target >= 1 ? static_cast<Mass>(target) - 1 : Mass{0};
    });
    if (last.index == INT32_MAX) return -1;
  }
  const auto floor = static_cast<Mass>(ceil(static_cast<double>(row.how.min_p) * kWhole));
  const Entry drawn = row.find(last, floor, [&](Mass total) {
    return static_cast<Mass>(static_cast<double>(uniform(row.how.key, row.how.position, 0)) *
                             static_cast<double>(total));
  });
  return drawn.index == INT32_MAX ? -1 : drawn.index;
}

}  // namespace braid::cuda
