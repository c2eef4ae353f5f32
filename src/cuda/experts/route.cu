// Choosing experts: one warp a row takes the largest logit k times; bounded by launch latency.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cuda/common/reduce.h"
#include "cuda/common/view.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

struct Arguments {
  int32_t* chosen;
  float* weights;
  const float* logits;
  int64_t rows, chosen_stride, weights_stride, logits_stride;
  int32_t experts, k;
  bool normalise;
};

constexpr int kWarps = 4;

struct Best {
  float logit = -INFINITY;
  int32_t index = INT32_MAX;
};

__device__ bool before(const Best& a, const Best& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.index < b.index);
}

// The first of the entries that come after `last` in the order of choice.
__device__ Best next_best(const float* logits, int32_t experts, const Best& last) {
  Best best;
  for (int32_t i = threadIdx.x % 32; i < experts; i += 32) {
    const Best it{isnan(logits[i]) ? -INFINITY : logits[i], i};
    if (before(last, it) && before(it, best)) best = it;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const Best other{__shfl_xor_sync(kAllLanes, best.logit, offset), __shfl_xor_sync(kAllLanes, best.index, offset)};
    if (before(other, best)) best = other;
  }
  return best;
}

__global__ void route_kernel(Arguments a) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= a.rows) return;
  const int lane = threadIdx.x % 32;
  const float* logits = a.logits + row * a.logits_stride;
  int32_t* chosen = a.chosen + row * a.chosen_stride;
  float* weights = a.weights + row * a.weights_stride;
  Best last{INFINITY, -1};
  float largest = 0, kept = 0, all = 0;
  for (int32_t i = 0; i < a.k; ++i) {
    last = next_best(logits, a.experts, last);
    if (i == 0) largest = last.logit;
    const float share = expf(logits[last.index] - largest);
    kept += share;
    if (lane == 0) chosen[i] = last.index, weights[i] = share;
  }
  for (int32_t i = lane; i < a.experts; i += 32) all += expf(logits[i] - largest);
  const float sum = a.normalise ? kept : sum_of_warp(all);
  if (lane == 0)
    for (int32_t i = 0; i < a.k; ++i) weights[i] /= sum;
}

}  // namespace

void launch(Context& context, const Route& op) {
  const int64_t rows = op.logits.rows();
  if (rows == 0) return;
  CHECK(op.chosen.width() <= op.logits.width(), "{} of {}", op.chosen.width(), op.logits.width());
  const Arguments arguments{.chosen = op.chosen.as<int32_t>(),
                            .weights = op.weights.as<float>(),
                            .logits = op.logits.as<float>(),
                            .rows = rows,
                            .chosen_stride = op.chosen.stride(0),
                            .weights_stride = op.weights.stride(0),
                            .logits_stride = op.logits.stride(0),
                            .experts = static_cast<int32_t>(op.logits.width()),
                            .k = static_cast<int32_t>(op.chosen.width()),
                            .normalise = op.normalise};
  route_kernel<<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), kWarps * 32, 0, context.stream()>>>(arguments);
}

}  // namespace braid::cuda
