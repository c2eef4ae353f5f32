// The residual stream's add and norm: one block a row, the row read twice (the second time from L1 or L2); bounded by
// launch latency for thin batches, by memory for wide ones.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/reduce.h"
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

}  // namespace

void launch(Context& context, const AddNorm& op) {
  if (op.stream.elements() == 0) return;
  const Arguments arguments{view(op.out), view(op.stream), view(op.add), view(op.weight), op.epsilon};
  add_norm_kernel<<<static_cast<unsigned>(op.stream.rows()), kThreads, 0, context.stream()>>>(arguments);
}

}  // namespace braid::cuda
