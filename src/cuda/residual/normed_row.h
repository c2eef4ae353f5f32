// One row that every block of a launch adds up and normalises for itself, since it is read in less time than another
// launch takes to begin. The last block that has read the stream writes it, and the normalised row. A block may have a
// row of an exact product too: sum of w * (norm * x), which the factor of the norm is taken out of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda/common/context.h"
#include "cuda/common/reduce.h"
#include "cuda/common/view.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace braid::cuda {

struct NormedRow {
  float *out = nullptr, *stream = nullptr;
  const float *add = nullptr, *weight = nullptr;  // may be null
  unsigned* arrived = nullptr;                    // blocks that have read the stream; zero between launches
  int width = 0;
  float epsilon = 0;
  // Exact products: block i has output i of all targets in turn.
  struct Target {
    View out;
    const uint4* weights = nullptr;  // of bf16
    unsigned first = 0;
  } targets[4];
  int target_count = 0;
  unsigned outputs = 0;
};

// The norm, which may join, with exact products (null: none). False where they are not of its output or have another
// form.
bool find_normed_row(NormedRow& row, Context& context, const AddNorm& norm, const Linear* products);

// Whether this result, put by blocks that others need not have gone before, leaves what the norm reads alone.
bool leaves_alone(const Tensor& out, const AddNorm& norm);

constexpr int kNormedEach = 8;

// Eight numbers that a thread has of the row.
struct Eight {
  float values[kNormedEach];

  __device__ static Eight load(const float* from) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  __device__ void store(float* to) const {
    reinterpret_cast<float4*>(to)[0] = {values[0], values[1], values[2], values[3]};
    reinterpret_cast<float4*>(to)[1] = {values[4], values[5], values[6], values[7]};
  }
  __device__ static Eight widened(const uint4& bits) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    Eight out;
#pragma unroll
    for (int i = 0; i < kNormedEach; ++i)
      out.values[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    return out;
  }
};

// What a thread has of the row: kSteps times eight numbers, of which those beyond the width are zero.
template <int kThreads, int kSteps>
struct NormedPart {
  static constexpr int kStep = kThreads * kNormedEach;
  Eight norm[kSteps], x[kSteps];
  uint4 weights[kSteps];
  bool last;  // thread 0: this block was the last one to read the stream

  __device__ static int column(int step) { return step * kStep + static_cast<int>(threadIdx.x) * kNormedEach; }

  // What no launch writes: before the wait.
  __device__ void ask(const NormedRow& row) {
    const NormedRow::Target target = target_of(row);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      norm[step] = {{1, 1, 1, 1, 1, 1, 1, 1}}, x[step] = {}, weights[step] = {};
      if (column(step) >= row.width) continue;
      if (row.weight != nullptr) norm[step] = Eight::load(row.weight + column(step));
      if (blockIdx.x < row.outputs)
        weights[step] = __ldg(target.weights + (int64_t{blockIdx.x - target.first} * row.width + column(step)) / 8);
    }
  }
  // All threads, after the wait: reads the row, and puts this block's output. The factor of the norm.
  __device__ float add_up(const NormedRow& row, float2 (&parts)[kThreads / 32]) {
    float2 sums{};  // of squares, and the product
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (column(step) >= row.width) continue;
      x[step] = Eight::load(row.stream + column(step));
      const Eight more = row.add != nullptr ? Eight::load(row.add + column(step)) : Eight{};
      const Eight w = Eight::widened(weights[step]);
#pragma unroll
      for (int i = 0; i < kNormedEach; ++i) {
        float& value = x[step].values[i];
        value += more.values[i];
        sums.x += value * value, sums.y += w.values[i] * (norm[step].values[i] * value);
      }
    }
    sums = {sum_of_warp(sums.x), sum_of_warp(sums.y)};
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sums;
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(row.arrived, gridDim.x - 1) == gridDim.x - 1;  // which makes it 0 again
    sums = {};
    for (const float2& one : parts) sums.x += one.x, sums.y += one.y;
    const float factor = 1.0f / sqrtf(sums.x / static_cast<float>(row.width) + row.epsilon);
    if (threadIdx.x == 0 && blockIdx.x < row.outputs) {
      const NormedRow::Target target = target_of(row);
      put(target.out, blockIdx.x - target.first, sums.y * factor);
    }
    return factor;
  }
  __device__ Eight normed(int step, float factor) const {
    Eight out;
#pragma unroll
    for (int i = 0; i < kNormedEach; ++i) out.values[i] = x[step].values[i] * factor * norm[step].values[i];
    return out;
  }
  // All threads of the block that was the last one.
  __device__ void write(const NormedRow& row, float factor) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (column(step) >= row.width) continue;
      if (row.add != nullptr) x[step].store(row.stream + column(step));
      normed(step, factor).store(row.out + column(step));
    }
  }

 private:
  __device__ static NormedRow::Target target_of(const NormedRow& row) {
    NormedRow::Target target = row.targets[0];
#pragma unroll
    for (int i = 1; i < 4; ++i)
      if (i < row.target_count && blockIdx.x >= row.targets[i].first) target = row.targets[i];
    return target;
  }
};

}  // namespace braid::cuda
