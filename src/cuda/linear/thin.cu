// Products for few rows of x: tensor cores with 16 rows of the weight as one operand and up to 32 rows of x as the
// other. A block takes 16 outputs, its four warps take blocks of 128 columns in turn and add up at the end; a lane
// loads 16 bytes of two weight rows at a time (columns are permuted alike in both operands), the loads of
// the next blocks ahead of the present one's products. Bounded by reading the weight. The sum's order does not depend
// on the rows of x.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"
#include "cuda/linear/tensor_core.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 4, kOutputs = 16, kBlock = 128;

// What a lane reads of one block of columns: two weight rows.
template <bool kFp8>
struct Piece {
  static constexpr int kLoads = kFp8 ? 2 : 4;
  uint4 row[2][kLoads];
  float scale[2];
};

struct Rows16 {
  const uint8_t* codes[2];  // this lane's two rows, at its first column
  const float* scales[2];   // of the rows' blocks
};

template <bool kFp8>
__device__ Rows16 find_rows(const Codes& codes, int64_t matrix, int64_t first, int64_t limit) {
  const int lane = threadIdx.x % 32;
  Rows16 out;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t row = min(first + lane / 4 + 8 * i, limit - 1);
    out.codes[i] = codes.data + (matrix * codes.rows + row) * codes.columns * (kFp8 ? 1 : 2) + lane % 4 * 16;
    out.scales[i] = codes.scales + (matrix * codes.scale_rows + row / codes.block_rows) * codes.scale_columns;
  }
  return out;
}

template <bool kFp8>
__device__ void load(Piece<kFp8>& piece, const Rows16& rows, int block) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int l = 0; l < Piece<kFp8>::kLoads; ++l)
      piece.row[i][l] =
          __ldcs(reinterpret_cast<const uint4*>(rows.codes[i] + int64_t{block} * kBlock * (kFp8 ? 1 : 2) + l * 64));
    if (kFp8) piece.scale[i] = rows.scales[i][block];
  }
}

__device__ uint32_t word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// The operand a of one instruction: step `s` of 8 of a block of columns.
template <bool kFp8>
__device__ void operand(uint32_t (&a)[4], const Piece<kFp8>& piece, int s) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kFp8) {
      widen(word(piece.row[i][s / 4], s % 4), a[i], a[2 + i]);
    } else {
      a[i] = word(piece.row[i][s / 2], s % 2 * 2);
      a[2 + i] = word(piece.row[i][s / 2], s % 2 * 2 + 1);
    }
  }
}

// Where a lane reads a row of x; null beyond the last row.
struct XRow {
  const void* data;
  bool bf16;

  // Eight numbers from `at` on, as bf16.
  __device__ uint4 load(int64_t at) const {
    if (data == nullptr) return {0, 0, 0, 0};
    if (bf16) return *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(data) + at);
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(data) + at);
    const float4 low = from[0], high = from[1];
    return {pair(low.x, low.y), pair(low.z, low.w), pair(high.x, high.y), pair(high.z, high.w)};
  }
  __device__ static uint32_t pair(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
};

template <bool kFp8, int kTiles, int kMatrices>
struct Sums {
  float sums[kMatrices][kTiles][4] = {};

  __device__ void add(const Piece<kFp8> (&pieces)[kMatrices], const XRow (&x)[kTiles], int block) {
    const int lane = threadIdx.x % 32;
    float fresh[kMatrices][kTiles][4] = {};
    // Two instructions use one load of 16 bytes of x.
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const int column = kFp8 ? pair / 2 * 64 + lane % 4 * 16 + pair % 2 * 8 : pair * 32 + lane % 4 * 8;
      uint4 b[kTiles];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) b[j] = x[j].load(block * kBlock + column);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int m = 0; m < kMatrices; ++m) {
          uint32_t a[4];
          operand<kFp8>(a, pieces[m], 2 * pair + half);
#pragma unroll
          for (int j = 0; j < kTiles; ++j) {
            const uint32_t words[2] = {word(b[j], 2 * half), word(b[j], 2 * half + 1)};
            multiply_add(kFp8 ? fresh[m][j] : sums[m][j], a, words);
          }
        }
    }
    if constexpr (kFp8)
#pragma unroll
      for (int m = 0; m < kMatrices; ++m)
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[m][j][i] += pieces[m].scale[i / 2] * fresh[m][j][i];
  }
};

// Adds up what the warps found and stores it.
template <int kTiles, int kMatrices>
__device__ void finish(const Product& p, const float* memory, const int32_t* slots, int64_t first) {
  constexpr int kTokens = kTiles * 8, kMatrix = kOutputs * kTokens;
  const int64_t outputs = p.codes.rows / kMatrices;
  for (int i = threadIdx.x; i < kMatrix; i += kWarps * 32) {
    const int row = i % kOutputs, token = i / kOutputs;
    if (slots[token] < 0 || first + row >= outputs) continue;
    float found[kMatrices] = {};
#pragma unroll
    for (int m = 0; m < kMatrices; ++m)
      for (int warp = 0; warp < kWarps; ++warp)
        found[m] += memory[((warp * kMatrices + m) * kTokens + token) * kOutputs + row];
    put(p.out, slots[token] * p.out.stride[0] + first + row,
        kMatrices == 2 ? silu(found[0]) * found[kMatrices - 1] : found[0]);
  }
}

template <bool kFp8, int kTiles, int kMatrices>
__global__ void __launch_bounds__(kWarps * 32, kTiles > 1       ? 1
                                               : kMatrices == 1 ? 4
                                                                : 3) thin_kernel(Product p) {
  constexpr int kTokens = kTiles * 8;
  __shared__ float memory[kWarps * kMatrices * kTokens * kOutputs];
  __shared__ int32_t slots[kTokens];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = int64_t{blockIdx.x} * kOutputs, outputs = p.codes.rows / kMatrices;
  Group group{0, 0, static_cast<int32_t>(p.slots)};
  if (p.groups != nullptr) {
    if (static_cast<int32_t>(blockIdx.y) >= *p.group_count) return;
    group = p.groups[blockIdx.y];
  }
  const int begin = p.groups != nullptr ? 0 : static_cast<int>(blockIdx.y) * kTokens;
  const int end = p.groups != nullptr ? group.count : min(group.count, begin + kTokens);
  Rows16 rows[kMatrices];
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
    rows[m] = find_rows<kFp8>(p.codes, group.matrix, m * outputs + first, (m + 1) * outputs);
  const int blocks = static_cast<int>(p.codes.columns / kBlock);
  for (int from = begin; from < end; from += kTokens) {
    // A ring of pieces: while one is used, the loads of the next ones are under way.
    constexpr int kAhead = kFp8 && kMatrices == 1 ? 3 : 2;
    Piece<kFp8> ring[kAhead][kMatrices];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead)
      if (warp + ahead * kWarps < blocks)
#pragma unroll
        for (int m = 0; m < kMatrices; ++m) load(ring[ahead][m], rows[m], warp + ahead * kWarps);
    __syncthreads();
    if (threadIdx.x < kTokens) {
      const int32_t at = from + static_cast<int32_t>(threadIdx.x);
      slots[threadIdx.x] = at >= group.count ? -1 : p.list != nullptr ? p.list[group.first + at] : at;
    }
    __syncthreads();
    XRow x[kTiles];
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int32_t slot = slots[j * 8 + lane / 4];
      const int64_t at = slot / p.divide * p.x.stride[0] * (p.x.bf16 ? 2 : 4);
      x[j] = {slot < 0 ? nullptr : static_cast<const char*>(p.x.data) + at, p.x.bf16};
    }
    Sums<kFp8, kTiles, kMatrices> sums;
    for (int block = warp; block < blocks; block += kAhead * kWarps)
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) {
        const int present = block + ahead * kWarps, next = present + kAhead * kWarps;
        if (present >= blocks) break;
        sums.add(ring[ahead], x, present);
        if (next < blocks)
#pragma unroll
          for (int m = 0; m < kMatrices; ++m) load(ring[ahead][m], rows[m], next);
      }
#pragma unroll
    for (int m = 0; m < kMatrices; ++m)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          memory[((warp * kMatrices + m) * kTokens + j * 8 + lane % 4 * 2 + i % 2) * kOutputs + lane / 4 + i / 2 * 8] =
              sums.sums[m][j][i];
    __syncthreads();
    finish<kTiles, kMatrices>(p, memory, slots, first);
  }
}

template <bool kFp8, int kMatrices>
void start(Context& context, const Product& p, int64_t tokens) {
  const auto blocks = static_cast<unsigned>((p.outputs() + kOutputs - 1) / kOutputs);
  const auto run = [&](auto kernel, int64_t width) {
    const int64_t parts = p.groups != nullptr ? p.most_groups : (p.slots + width - 1) / width;
    kernel<<<dim3(blocks, static_cast<unsigned>(parts)), kWarps * 32, 0, context.stream()>>>(p);
  };
  if (tokens <= 8)
    run(thin_kernel<kFp8, 1, kMatrices>, 8);
  else if (tokens <= 16)
    run(thin_kernel<kFp8, 2, kMatrices>, 16);
  else
    run(thin_kernel<kFp8, 4, kMatrices>, 32);
}

}  // namespace

void multiply_thin(Context& context, const Product& p) {
  // Groups hold as many slots as fall to one matrix, on average.
  const int64_t tokens = p.groups == nullptr ? p.slots : std::max<int64_t>(1, p.slots / p.codes.count);
  const bool fp8 = p.codes.coding == Coding::Fp8;
  if (p.gated)
    fp8 ? start<true, 2>(context, p, tokens) : start<false, 2>(context, p, tokens);
  else
    fp8 ? start<true, 1>(context, p, tokens) : start<false, 1>(context, p, tokens);
}

}  // namespace braid::cuda
