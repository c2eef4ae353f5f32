// Products of any shape and format: one warp an output and eight rows of x; bounded by instructions. For small head
// sizes and widths, f32 weights, and operands that may not be rounded.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/decode.h"
#include "cuda/common/reduce.h"
#include "cuda/linear/product.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 4, kRows = 8;

__device__ void multiply_rows(const Product& p, int64_t matrix, int64_t weight_row, const int64_t (&x_rows)[kRows],
                              float (&sums)[kRows]) {
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = 0;
  for (int64_t k = threadIdx.x % 32; k < p.codes.columns; k += 32) {
    const float w = decode(p.codes, matrix, weight_row, k);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (x_rows[i] >= 0) sums[i] += w * get(p.x, x_rows[i] * p.x.stride[0] + k);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) sums[i] = sum_of_warp(sums[i]);
}

__global__ void plain_kernel(Product p) {
  const int64_t n = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32,
                outputs = p.gated ? p.codes.rows / 2 : p.codes.rows;
  if (n >= outputs) return;
  Group group{0, 0, static_cast<int32_t>(p.slots)};
  int64_t chunk = blockIdx.y;
  if (p.groups != nullptr) {
    if (static_cast<int32_t>(blockIdx.y) >= *p.group_count) return;
    group = p.groups[blockIdx.y], chunk = 0;
  }
  // Without groups each block takes one chunk of rows; a group is small and one block takes it whole.
  const int64_t end = p.groups != nullptr ? group.count : min(int64_t{group.count}, (chunk + 1) * kRows);
  for (int64_t from = chunk * kRows; from < end; from += kRows) {
    int64_t slots[kRows], x_rows[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool there = from + i < group.count;
      slots[i] = !there ? -1 : p.list != nullptr ? p.list[group.first + from + i] : from + i;
      x_rows[i] = there ? slots[i] / p.divide : -1;
    }
    float first[kRows], second[kRows];
    multiply_rows(p, group.matrix, n, x_rows, first);
    if (p.gated) multiply_rows(p, group.matrix, n + outputs, x_rows, second);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (slots[i] >= 0 && threadIdx.x % 32 == static_cast<unsigned>(i))
        put(p.out, slots[i] * p.out.stride[0] + n, p.gated ? silu(first[i]) * second[i] : first[i]);
  }
}

}  // namespace

void multiply_plain(Context& context, const Product& p) {
  const auto blocks = static_cast<unsigned>((p.outputs() + kWarps - 1) / kWarps);
  // The y extent of a grid ends at 65,535; longer batches go in pieces.
  constexpr int64_t kMostChunks = 32768;
  if (p.groups != nullptr) {
    plain_kernel<<<dim3(blocks, static_cast<unsigned>(p.most_groups)), kWarps * 32, 0, context.stream()>>>(p);
    return;
  }
  for (int64_t from = 0; from < p.slots; from += kMostChunks * kRows) {
    Product piece = p;
    piece.slots = std::min(p.slots - from, kMostChunks * kRows);
    const auto offset = [&](const View& v) { return from * v.stride[0] * (v.bf16 ? 2 : 4); };
    piece.x.data = static_cast<char*>(p.x.data) + offset(p.x);
    piece.out.data = static_cast<char*>(p.out.data) + offset(p.out);
    const auto chunks = static_cast<unsigned>((piece.slots + kRows - 1) / kRows);
    plain_kernel<<<dim3(blocks, chunks), kWarps * 32, 0, context.stream()>>>(piece);
  }
}

}  // namespace braid::cuda
