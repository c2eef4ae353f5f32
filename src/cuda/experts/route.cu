// Choosing experts: one warp a row takes the largest logit k times, from registers for up to 1,024 experts; bounded by
// launch latency.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
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

// Logits as whole numbers of the same order, none of them 0.
__device__ uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint((isnan(logit) ? -INFINITY : logit) + 0.0f);  // -0 equals 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ float logit_of(uint32_t key) { return __uint_as_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key); }

// The one value that `join` makes of all, in pairs, so that few wait for another; spends `values`.
template <int kEach, typename Join>
__device__ uint32_t fold(uint32_t (&values)[kEach], Join join) {
  static_assert((kEach & (kEach - 1)) == 0);
#pragma unroll
  for (int step = kEach / 2; step > 0; step /= 2)
#pragma unroll
    for (int e = 0; e < step; ++e) values[e] = join(values[e], values[e + step]);
  return values[0];
}

// A lane holds the entries lane, lane + 32, ... of a row, kEach of them; 0: none, or taken.
template <int kEach>
struct Held {
  uint32_t keys[kEach];

  __device__ Held(const float* logits, int32_t experts) {
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int32_t i = static_cast<int32_t>(threadIdx.x) % 32 + 32 * e;
      keys[e] = i < experts ? key_of(logits[i]) : 0;
    }
  }
  // Takes out the first in the order of choice: the logit, then the lower index.
  __device__ Best take() {
    uint32_t best[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) best[e] = keys[e];
    const uint32_t top = __reduce_max_sync(kAllLanes, fold(best, [](uint32_t a, uint32_t b) { return max(a, b); }));
#pragma unroll
    for (int e = 0; e < kEach; ++e) best[e] = keys[e] == top ? threadIdx.x % 32 + 32 * e : 0xFFFFFFFFu;
    const uint32_t index = __reduce_min_sync(kAllLanes, fold(best, [](uint32_t a, uint32_t b) { return min(a, b); }));
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if (threadIdx.x % 32 + 32 * e == index) keys[e] = 0;
    return {logit_of(top), static_cast<int32_t>(index)};
  }
};

template <int kEach>
__global__ void route_held_kernel(Arguments a) {
  await_earlier();
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (row >= a.rows) return;
  const int lane = threadIdx.x % 32;
  const float* logits = a.logits + row * a.logits_stride;
  Held<kEach> held(logits, a.experts);
  float largest = 0, kept = 0, all = 0, own = 0;  // own: the share of choice number `lane`, where k is at most 32
  int32_t* chosen = a.chosen + row * a.chosen_stride;
  float* weights = a.weights + row * a.weights_stride;
  for (int32_t i = 0; i < a.k; ++i) {
    const Best it = held.take();
    if (i == 0) largest = it.logit;
    const float share = expf(it.logit - largest);
    kept += share;
    if (lane == i) own = share, chosen[i] = it.index;
  }
  if (!a.normalise)
    for (int32_t i = lane; i < a.experts; i += 32) all += expf(logits[i] - largest);
  const float sum = a.normalise ? kept : sum_of_warp(all);
  if (lane < a.k) weights[lane] = own / sum;
}

__global__ void route_kernel(Arguments a) {
  await_earlier();
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
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  void (*kernel)(Arguments) = route_held_kernel<32>;
  if (arguments.k > 32 || arguments.experts > 1024)
    kernel = route_kernel;
  else if (arguments.experts <= 256)
    kernel = route_held_kernel<8>;
  else if (arguments.experts <= 512)
    kernel = route_held_kernel<16>;
  start(context, kernel, {.grid = blocks, .block = kWarps * 32}, arguments);
}

}  // namespace braid::cuda
