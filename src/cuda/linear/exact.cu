// Products whose rows of x are f32 and not rounded, with bf16 weights. Few rows: f32 multiply-adds, a block takes some
// outputs and up to eight rows, its threads share the columns; bounded by latency. Many rows: tensor cores, with x in
// three parts. Such products are small: gates, decays and routers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"
#include "cuda/linear/tensor_core.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kColumns = 8;  // columns that a thread takes at once: 16 bytes

struct Eight {
  float values[kColumns];
};

// One launch serves all targets of an op: blocks are handed out to one after the other.
struct Targets {
  static constexpr int kMost = 4;
  View x;
  int64_t tokens, columns;
  struct Target {
    View out;
    const uint8_t* weights;
    int64_t rows;
    unsigned first_block;
  } targets[kMost];
  int count;
};

// What block `blockIdx.x` computes, and the number of the block among those of its target.
struct Work {
  Targets::Target target;
  int64_t block;

  __device__ explicit Work(const Targets& all) : target(all.targets[0]) {
#pragma unroll
    for (int i = 1; i < Targets::kMost; ++i)
      if (i < all.count && blockIdx.x >= all.targets[i].first_block) target = all.targets[i];
    block = blockIdx.x - target.first_block;
  }
};

__device__ uint4 weights_at(const Targets& all, const Work& work, int64_t row, int64_t column) {
  const int64_t inside = min(row, work.target.rows - 1);
  return __ldg(reinterpret_cast<const uint4*>(work.target.weights + (inside * all.columns + column) * 2));
}

__device__ Eight widened(const uint4& bits) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.values[2 * i] = __uint_as_float(words[i] << 16);
    out.values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
  }
  return out;
}

__device__ Eight inputs_at(const Targets& all, int64_t row, int64_t column) {
  const int64_t inside = min(row, all.tokens - 1);
  const auto* at =
      reinterpret_cast<const float4*>(static_cast<const float*>(all.x.data) + inside * all.x.stride[0] + column);
  const float4 low = at[0], high = at[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

template <int kOutputs, int kRows>
__global__ void __launch_bounds__(kThreads) few_rows_kernel(Targets all) {
  __shared__ float parts[kWarps][kOutputs * kRows];
  const Work work(all);
  const int64_t first = work.block * kOutputs, row = blockIdx.y * int64_t{kRows};
  float sums[kOutputs][kRows] = {};
  uint4 ahead[kOutputs];
  const auto ask = [&](int64_t k) {
#pragma unroll
    for (int n = 0; n < kOutputs; ++n)
      if (k < all.columns) ahead[n] = weights_at(all, work, first + n, k);
  };
  ask(threadIdx.x * kColumns);
  await_earlier();
  for (int64_t k = threadIdx.x * kColumns; k < all.columns; k += kThreads * kColumns) {
    Eight w[kOutputs];
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) w[n] = widened(ahead[n]);
    ask(k + kThreads * kColumns);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Eight x = inputs_at(all, row + r, k);
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
  if (n >= kOutputs || first + n >= work.target.rows || row + r >= all.tokens) return;
  float sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][threadIdx.x];
  put(work.target.out, (row + r) * work.target.out.stride[0] + first + n, sum);
}

// Many rows: x as three numbers of bf16 whose sum it is, so that products on the tensor cores are exact. A block takes
// 32 rows and 32 outputs, its warps take 32 columns in turn and add up at the end. Columns are permuted alike
// in both operands, for wide loads.
constexpr int kTileRows = 32, kNarrow = 4, kTileOutputs = 8 * kNarrow, kTileWarps = 8, kStep = 32;

// Eight columns of rows g and g + 8 of each half of the tile, and of the weight rows n + g; zero beyond the last
// column.
struct Fetched {
  Eight x[4];
  uint4 w[kNarrow];

  __device__ void load(const Targets& all, const Work& work, int64_t first_output, int64_t column) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4;
    const bool inside = column < all.columns;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      x[i] = inside ? inputs_at(all, blockIdx.y * int64_t{kTileRows} + 8 * i + g, column) : Eight{};
#pragma unroll
    for (int n = 0; n < kNarrow; ++n) w[n] = inside ? weights_at(all, work, first_output + 8 * n + g, column) : uint4{};
  }
};

// Takes the next bf16 off a pair of numbers.
__device__ uint32_t split(float& low, float& high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  low -= __low2float(both), high -= __high2float(both);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ void add(float (&sums)[2][kNarrow][4], Fetched& fetched) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int limb = 0; limb < 3; ++limb)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* pair = fetched.x[2 * m + i % 2].values + 4 * half + i / 2 * 2;
          a[i] = split(pair[0], pair[1]);
        }
#pragma unroll
        for (int n = 0; n < kNarrow; ++n) {
          const uint4& w = fetched.w[n];
          const uint32_t b[2] = {half == 0 ? w.x : w.z, half == 0 ? w.y : w.w};
          multiply_add(sums[m][n], a, b);
        }
      }
}

__global__ void __launch_bounds__(kTileWarps * 32) tile_kernel(Targets all) {
  __shared__ float parts[kTileWarps][kTileRows][kTileOutputs];
  const Work work(all);
  const int64_t first_row = blockIdx.y * int64_t{kTileRows}, first_output = work.block * kTileOutputs;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  float sums[2][kNarrow][4] = {};
  await_earlier();
  Fetched present, next;
  present.load(all, work, first_output, warp * kStep + 8 * t);
  for (int64_t column = warp * kStep; column < all.columns; column += kTileWarps * kStep) {
    next.load(all, work, first_output, column + kTileWarps * kStep + 8 * t);
    add(sums, present);
    present = next;
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < kNarrow; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[warp][16 * m + i / 2 * 8 + g][8 * n + 2 * t + i % 2] = sums[m][n][i];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kTileOutputs; i += kTileWarps * 32) {
    const int row = i / kTileOutputs, output = i % kTileOutputs;
    if (first_row + row >= all.tokens || first_output + output >= work.target.rows) continue;
    float sum = 0;
#pragma unroll
    for (int part = 0; part < kTileWarps; ++part) sum += parts[part][row][output];
    put(work.target.out, (first_row + row) * work.target.out.stride[0] + first_output + output, sum);
  }
}

unsigned pieces(int64_t count, int64_t size) { return static_cast<unsigned>((count + size - 1) / size); }

}  // namespace

void multiply_exact(Context& context, std::span<const Product> products) {
  const int64_t tokens = products.front().slots, columns = products.front().codes.columns;
  CHECK(products.size() <= Targets::kMost, "{}", products.size());
  Targets all{
      .x = products.front().x, .tokens = tokens, .columns = columns, .count = static_cast<int>(products.size())};
  const auto run = [&](auto kernel, int threads, int64_t outputs, int64_t rows) {
    unsigned blocks = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const Product& p = products[i];
      all.targets[i] = {.out = p.out, .weights = p.codes.data, .rows = p.codes.rows, .first_block = blocks};
      blocks += pieces(p.codes.rows, outputs);
    }
    start(context, kernel, {.grid = dim3(blocks, pieces(tokens, rows)), .block = static_cast<unsigned>(threads)}, all);
  };
  if (tokens == 1)
    run(few_rows_kernel<1, 1>, kThreads, 1, 1);
  else if (tokens <= kExactFewTokens)
    run(few_rows_kernel<4, 8>, kThreads, 4, 8);
  else
    run(tile_kernel, kTileWarps * 32, kTileOutputs, kTileRows);
}

}  // namespace braid::cuda
