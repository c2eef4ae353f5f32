// Copy, gather, fill, embed: one thread an element; bounded by memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/decode.h"
#include "cuda/common/error.h"
#include "cuda/common/start.h"
#include "cuda/launch.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t elements) {
  return static_cast<unsigned>(std::min<int64_t>((elements + kThreads - 1) / kThreads, 1 << 16));
}

// Bits pass unchanged between equal types; NaN payloads too.
__device__ void copy_element(const View& out, int64_t to, const View& x, int64_t from) {
  if (out.bf16 && x.bf16)
    static_cast<uint16_t*>(out.data)[to] = static_cast<const uint16_t*>(x.data)[from];
  else
    put(out, to, get(x, from));
}

__global__ void copy_kernel(View out, View x, int64_t elements) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < elements; i += int64_t{gridDim.x} * blockDim.x) {
    int64_t rest = i, to = 0, from = 0;
    for (int dim = 3; dim >= 0; --dim) {
      const int64_t index = rest % x.shape[dim];
      rest /= x.shape[dim];
      to += index * out.stride[dim], from += index * x.stride[dim];
    }
    copy_element(out, to, x, from);
  }
}

// Of rows: blocks lie along x, their columns along y.
__device__ int64_t column() { return blockIdx.y * int64_t{kThreads} + threadIdx.x; }
dim3 rows_and_columns(const Tensor& out) {
  return {static_cast<unsigned>(out.rows()), static_cast<unsigned>((out.width() + kThreads - 1) / kThreads)};
}

__global__ void gather_kernel(View out, View x, const int32_t* index) {
  await_earlier();
  const int64_t row = blockIdx.x, i = column();
  if (i < out.shape[1]) copy_element(out, row * out.stride[0] + i, x, index[row] * x.stride[0] + i);
}

__global__ void embed_kernel(View out, Codes table, const int32_t* ids, float scale) {
  await_earlier();
  const int64_t row = blockIdx.x, i = column();
  if (i < out.shape[1]) put(out, row * out.stride[0] + i, decode(table, 0, ids[row], i) * scale);
}

}  // namespace

void launch(Context& context, const Copy& op) {
  CHECK(op.out.rank == op.x.rank && op.out.shape == op.x.shape, "{} from {}", op.out.describe(), op.x.describe());
  if (op.x.elements() == 0) return;
  if (op.out.dtype == op.x.dtype && op.out.contiguous() && op.x.contiguous()) {
    check(
        cudaMemcpyAsync(op.out.data, op.x.data, static_cast<size_t>(op.x.bytes()), cudaMemcpyDefault, context.stream()),
        "copy");
    return;
  }
  copy_kernel<<<blocks_for(op.x.elements()), kThreads, 0, context.stream()>>>(view(op.out), view(op.x),
                                                                              op.x.elements());
}

void launch(Context& context, const Gather& op) {
  if (op.out.elements() == 0) return;
  start(context, gather_kernel, {.grid = rows_and_columns(op.out), .block = kThreads}, view(op.out), view(op.x),
        op.index.as<int32_t>());
}

void launch(Context& context, const Fill& op) {
  CHECK(op.out.contiguous(), "{}", op.out.describe());
  if (op.out.elements() == 0) return;
  check(cudaMemsetAsync(op.out.data, op.byte, static_cast<size_t>(op.out.bytes()), context.stream()), "fill");
}

void launch(Context& context, const Embed& op) {
  if (op.out.elements() == 0) return;
  start(context, embed_kernel, {.grid = rows_and_columns(op.out), .block = kThreads}, view(op.out), codes_of(*op.table),
        op.ids.as<int32_t>(), op.scale);
}

}  // namespace braid::cuda
