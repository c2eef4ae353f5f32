// The residual stream's add and norm, one block a row. Rows of f32 that lie at 16 bytes stay in registers between the
// sum of squares and the norm, and all of a row is asked for at once: bounded by launch latency for thin batches, by
// memory for wide ones. Others are read twice, the second time from L1 or L2.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/common/view.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256;

struct Arguments {
  View out, stream, add, weight;
  float epsilon;
};

__global__ void add_norm_kernel(Arguments a) {
  await_earlier();
  __shared__ float scratch[32];
  const int64_t row = blockIdx.x, width = a.stream.shape[1], at = row * a.stream.stride[0];
  float squares = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float value = get(a.stream, at + i);
    if (a.add.data != nullptr) {
      put(a.stream, at + i, value + get(a.add, row * a.add.stride[0] + i));
      value = get(a.stream, at + i);  // what is normalised is what the stream now holds
    }
    squares += value * value;
  }
  if (a.out.data == nullptr) return;
  const float mean = sum_of_block(squares, scratch) / static_cast<float>(width);
  const float factor = 1.0f / sqrtf(mean + a.epsilon);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const float weight = a.weight.data == nullptr ? 1.0f : get(a.weight, i);
    put(a.out, row * a.out.stride[0] + i, get(a.stream, at + i) * factor * weight);
  }
}

__device__ float4* quads(const View& v, int64_t row) {
  return reinterpret_cast<float4*>(static_cast<float*>(v.data) + row * v.stride[0]);
}

// kQuads * 4 numbers a thread.
template <int kQuads>
__global__ void __launch_bounds__(1024) add_norm_quads_kernel(Arguments a) {
  __shared__ float scratch[32];
  const int64_t row = blockIdx.x;
  const int width = static_cast<int>(a.stream.shape[1] / 4);
  float4 values[kQuads], weights[kQuads];
  float squares = 0;
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int i = static_cast<int>(threadIdx.x + q * blockDim.x);
    weights[q] = i < width && a.weight.data != nullptr ? quads(a.weight, 0)[i] : float4{1, 1, 1, 1};
  }
  await_earlier();
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int i = static_cast<int>(threadIdx.x + q * blockDim.x);
    values[q] = i < width ? quads(a.stream, row)[i] : float4{};
  }
  if (a.add.data != nullptr)
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int i = static_cast<int>(threadIdx.x + q * blockDim.x);
      if (i >= width) break;
      const float4 more = quads(a.add, row)[i];
      float4& value = values[q];
      value.x += more.x, value.y += more.y, value.z += more.z, value.w += more.w;
      quads(a.stream, row)[i] = value;
    }
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float4& v = values[q];
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  if (a.out.data == nullptr) return;
  const float mean = sum_of_block(squares, scratch) / static_cast<float>(a.stream.shape[1]);
  const float factor = 1.0f / sqrtf(mean + a.epsilon);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const int i = static_cast<int>(threadIdx.x + q * blockDim.x);
    if (i >= width) break;
    const float4 &v = values[q], &w = weights[q];
    quads(a.out, row)[i] = {v.x * factor * w.x, v.y * factor * w.y, v.z * factor * w.z, v.w * factor * w.w};
  }
}

bool in_quads(const View& v) {
  return v.data == nullptr ||
         (!v.bf16 && reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && (v.stride[0] % 4 == 0 || v.shape[1] == 1));
}

}  // namespace

void launch(Context& context, const AddNorm& op) {
  if (op.stream.elements() == 0) return;
  const Arguments arguments{view(op.out), view(op.stream), view(op.add), view(op.weight), op.epsilon};
  const auto rows = static_cast<unsigned>(op.stream.rows());
  const int64_t width = op.stream.width();
  View weight = arguments.weight;
  weight.stride[0] = 0;
  const bool whole = width % 4 == 0 && in_quads(arguments.out) && in_quads(arguments.stream) &&
                     in_quads(arguments.add) && in_quads(weight);
  // Few numbers a thread: a row's latency is what counts where rows are few, and many rows fill the machine anyway.
  const auto threads = [&](int64_t quads) {
    return static_cast<unsigned>(std::max<int64_t>((width / 4 + quads * 32 - 1) / (quads * 32) * 32, 32));
  };
  if (whole && width <= 4096)
    start(context, add_norm_quads_kernel<1>, {.grid = rows, .block = threads(1)}, arguments);
  else if (whole && width <= 8192)
    start(context, add_norm_quads_kernel<2>, {.grid = rows, .block = threads(2)}, arguments);
  else if (whole && width <= 16384)
    start(context, add_norm_quads_kernel<4>, {.grid = rows, .block = threads(4)}, arguments);
  else
    start(context, add_norm_kernel, {.grid = rows, .block = kThreads}, arguments);
}

}  // namespace braid::cuda
