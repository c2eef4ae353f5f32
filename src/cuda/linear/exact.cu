// Products whose rows of x are f32 and not rounded, with bf16 weights: f32 multiply-adds. Few rows: a block takes some
// outputs and up to eight rows, its threads share the columns; bounded by latency, and by L2 where rows are many. Many
// rows: tiles of 64 rows and 64 outputs through shared memory, the next columns asked for while these are multiplied;
// bounded by the rate of f32. Such products are small: gates, decays and routers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kColumns = 8;  // columns that a thread takes at once: 16 bytes

struct Eight {
  float values[kColumns];
};

__device__ Eight weights_at(const Product& p, int64_t row, int64_t column) {
  const auto* at = reinterpret_cast<const uint4*>(p.codes.data + (row * p.codes.columns + column) * 2);
  const uint4 bits = __ldg(at);
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.values[2 * i] = __uint_as_float(words[i] << 16);
    out.values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
  return out;
}

__device__ Eight inputs_at(const Product& p, int64_t row, int64_t column) {
  const auto* at = reinterpret_cast<const float4*>(static_cast<const float*>(p.x.data) + row * p.x.stride[0] + column);
  const float4 low = at[0], high = at[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

template <int kOutputs, int kRows>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(Product p) {
  __shared__ float parts[kWarps][kOutputs * kRows];
  const int64_t first = blockIdx.x * int64_t{kOutputs}, row = blockIdx.y * int64_t{kRows};
  float sums[kOutputs][kRows] = {};
  await_earlier();
  for (int64_t k = threadIdx.x * kColumns; k < p.codes.columns; k += kThreads * kColumns) {
    Eight w[kOutputs];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) w[n] = weights_at(p, min(first + n, p.codes.rows - 1), k);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Eight x = inputs_at(p, min(row + r, p.slots - 1), k);
#pragma unroll
      for (int n = 0; n < kOutputs; ++n)
#pragma unroll
        for (int i = 0; i < kColumns; ++i) sums[n][r] += w[n].values[i] * x.values[i];
    }
  }
#pragma unroll
  for (int n = 0; n < kOutputs; ++n)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float sum = sum_of_warp(sums[n][r]);
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][n * kRows + r] = sum;
    }
  __syncthreads();
  const int n = static_cast<int>(threadIdx.x) / kRows, r = static_cast<int>(threadIdx.x) % kRows;
  if (n >= kOutputs || first + n >= p.codes.rows || row + r >= p.slots) return;
  float sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][threadIdx.x];
  put(p.out, (row + r) * p.out.stride[0] + first + n, sum);
}

constexpr int kTile = 64, kDepth = 16, kTileThreads = 256;

// What a thread brings to a tile: 4 columns of one row of x, and of one row of the weight.
struct Fetched {
  float x[4], w[4];

  __device__ void load(const Product& p, int64_t row, int64_t output, int64_t k) {
    const float4 of_x = *reinterpret_cast<const float4*>(static_cast<const float*>(p.x.data) + row * p.x.stride[0] + k);
    const uint2 of_w = *reinterpret_cast<const uint2*>(p.codes.data + (output * p.codes.columns + k) * 2);
    x[0] = of_x.x, x[1] = of_x.y, x[2] = of_x.z, x[3] = of_x.w;
    w[0] = __uint_as_float(of_w.x << 16), w[1] = __uint_as_float(of_w.x & 0xFFFF0000u);
    w[2] = __uint_as_float(of_w.y << 16), w[3] = __uint_as_float(of_w.y & 0xFFFF0000u);
  }
};

__global__ void __launch_bounds__(kTileThreads) tile_kernel(Product p) {
  __shared__ __align__(16) float x[2][kDepth][kTile + 4], w[2][kDepth][kTile + 4];
  const int64_t first_row = blockIdx.x * int64_t{kTile}, first_output = blockIdx.y * int64_t{kTile};
  const int line = static_cast<int>(threadIdx.x) / 4, column = static_cast<int>(threadIdx.x) % 4 * 4;
  const int own_row = static_cast<int>(threadIdx.x) / 16 * 4, own_output = static_cast<int>(threadIdx.x) % 16 * 4;
  const int64_t row = min(first_row + line, p.slots - 1), output = min(first_output + line, p.codes.rows - 1);
  float sums[4][4] = {};
  await_earlier();
  Fetched fetched;
  fetched.load(p, row, output, column);
  int half = 0;
  for (int64_t k = 0; k < p.codes.columns; k += kDepth, half = 1 - half) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[half][column + i][line] = fetched.x[i], w[half][column + i][line] = fetched.w[i];
    __syncthreads();
    if (k + kDepth < p.codes.columns) fetched.load(p, row, output, k + kDepth + column);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const float4 a = *reinterpret_cast<const float4*>(&x[half][d][own_row]);
      const float4 b = *reinterpret_cast<const float4*>(&w[half][d][own_output]);
      const float of_x[4] = {a.x, a.y, a.z, a.w}, of_w[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] += of_x[i] * of_w[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (first_row + own_row + i < p.slots && first_output + own_output + j < p.codes.rows)
        put(p.out, (first_row + own_row + i) * p.out.stride[0] + first_output + own_output + j, sums[i][j]);
}

unsigned pieces(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace

void multiply_exact(Context& context, const Product& p) {
  const unsigned outputs = pieces(p.codes.rows, 4);
  if (p.slots > kExactFewTokens)
    start(context, tile_kernel,
          {.grid = dim3(pieces(p.slots, kTile), pieces(p.codes.rows, kTile)), .block = kTileThreads}, p);
  else if (p.slots == 1)
    start(context, few_rows_kernel<1, 1>, {.grid = static_cast<unsigned>(p.codes.rows), .block = kThreads}, p);
  else
    start(context, few_rows_kernel<4, 8>, {.grid = dim3(outputs, pieces(p.slots, 8)), .block = kThreads}, p);
}

}  // namespace braid::cuda
