// What the rows of a chunk need before the state is known, a block a chunk and key head: convolution, lengths, products
// of keys, gates, and for each value head the inverse of its triangular system (docs/delta_rule.md). Bounded by the
// instructions of the convolution's activation.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/arrival.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kStripRows = 8, kProductStride = 72;
constexpr int kTogether = kHeadTiles;  // systems that are solved at once

struct Workspace {
  uint8_t heads[kHeadTiles * kTileBytes];  // k and q; later the systems
  float kk[kChunk * kProductStride];
  float qk[kChunk * kProductStride];
  float cumulated[kMostRatio][kChunk];  // log2 of the decay through each row
  float beta[kMostRatio][kChunk];
};

__device__ void load_fragment(uint32_t (&out)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(at)));
}
__device__ void load_across(uint32_t (&out)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(at)));
}
// sums[16 x 8] += a[16 x 16] * b[16 x 8], laid out as multiply_add of cuda/linear/tensor_core.h has them.
__device__ void multiply_halves(float (&sums)[4], const uint32_t (&a)[4], uint32_t low, uint32_t high) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, "
      "%3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(low), "r"(high));
}

// Eight rows of the 128 channels from `channel` on; a lane has channels 4 lane .. 4 lane + 3.
template <typename Q>
struct Strip {
  typename Q::Raw raw[kStripRows + kTaps - 1];
  float4 taps[4], x[kTaps];

  __device__ void load(const DeltaView& d, const Chunk& chunk, int first, int channel) {
    const int c = channel + static_cast<int>(threadIdx.x) % 32 * 4;
    const int row = static_cast<int>(chunk.first - chunk.start) + first - (kTaps - 1),
              last = row + kTaps - 1 - first + chunk.rows - 1;
    const int stride = static_cast<int>(d.qkv.stride[0]);
    const int64_t base = (chunk.start + row) * stride + c;
#pragma unroll
    for (int r = 0; r < kStripRows + kTaps - 1; ++r)
      raw[r] = Q::load(d.qkv, base + (max(min(row + r, last), 0) - row) * stride);
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = reinterpret_cast<const float4*>(d.conv)[c + i];
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = Q::widen(raw[r]);
    if (row >= 0) return;
    const float* context = d.conv_state + int64_t{d.rows.slots[chunk.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r)
      if (row + r < 0) x[r] = *reinterpret_cast<const float4*>(context + (row + r + kTaps - 1) * d.channels);
  }
  // The next row, convolved and activated.
  __device__ float4 row(int r) {
    x[3] = Q::widen(raw[r + 3]);
    const auto at = [](const float4& tap, float a, float b, float c, float e) {
      const float sum = fmaf(tap.w, e, fmaf(tap.z, c, fmaf(tap.y, b, tap.x * a)));
      return sum * quick_sigmoid(sum);
    };
    const float4 y{at(taps[0], x[0].x, x[1].x, x[2].x, x[3].x), at(taps[1], x[0].y, x[1].y, x[2].y, x[3].y),
                   at(taps[2], x[0].z, x[1].z, x[2].z, x[3].z), at(taps[3], x[0].w, x[1].w, x[2].w, x[3].w)};
    x[0] = x[1], x[1] = x[2], x[2] = x[3];
    return y;
  }
};

// Where a lane's channels of a row lie in two tiles of 64 columns.
__device__ uint32_t place_in_tiles(int row) {
  const int lane = threadIdx.x % 32;
  return lane / 16 * kTileBytes + swizzled(row, lane % 16 / 2) + lane % 2 * 8;
}

// Rows of k or q of unit length, times `length`, to both places; rows beyond the chunk's are zero.
template <typename Q>
__device__ void make_keys(Strip<Q>& strip, int first, int rows, float length, uint8_t* tiles, uint8_t* copy) {
#pragma unroll
  for (int r = 0; r < kStripRows; ++r) {
    const float4 y = strip.row(r);
    const float squares = sum_of_warp(y.x * y.x + y.y * y.y + y.z * y.z + y.w * y.w);
    const float factor = first + r < rows ? length * rsqrtf(squares + 1e-6f) : 0.0f;
    const uint2 pairs{half_pair(y.x * factor, y.y * factor), half_pair(y.z * factor, y.w * factor)};
    const uint32_t at = place_in_tiles(first + r);
    *reinterpret_cast<uint2*>(tiles + at) = pairs;
    *reinterpret_cast<uint2*>(copy + at) = pairs;
  }
}

// Rows of v times beta, which is zero beyond the chunk's rows.
template <typename Q>
__device__ void make_values(Strip<Q>& strip, int first, const float* beta, uint8_t* tiles) {
#pragma unroll
  for (int r = 0; r < kStripRows; ++r) {
    const float4 y = strip.row(r);
    const float b = beta[first + r];
    *reinterpret_cast<uint2*>(tiles + place_in_tiles(first + r)) = {half_pair(b * y.x, b * y.y),
                                                                    half_pair(b * y.z, b * y.w)};
  }
}

// kk = k k^T and qk = q k^T, on and below the diagonal: 16 rows a warp.
__device__ void multiply_keys(Workspace& w) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp % 4 * 16;
  const uint8_t *keys = w.heads, *left = w.heads + warp / 4 * 2 * kTileBytes;
  float sums[8][4] = {};
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const int tile = step / 4 * kTileBytes, piece = step % 4 * 2;
    uint32_t a[4];
    load_fragment(a, left + tile + swizzled(first + lane % 16, piece + lane / 16));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (16 * j > first) break;
      uint32_t b[4];
      load_fragment(b, keys + tile + swizzled(16 * j + lane / 16 * 8 + lane % 8, piece + lane / 8 % 2));
      multiply_halves(sums[2 * j], a, b[0], b[1]);
      multiply_halves(sums[2 * j + 1], a, b[2], b[3]);
    }
  }
  float* out = (warp / 4 == 0 ? w.kk : w.qk) + (first + lane / 4) * kProductStride + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    *reinterpret_cast<float2*>(out + 8 * j) = {sums[j][0], sums[j][1]};
    *reinterpret_cast<float2*>(out + 8 * kProductStride + 8 * j) = {sums[j][2], sums[j][3]};
  }
}

// Log decays and betas of the value heads; the decays are cumulated in order.
__device__ void make_gates(const DeltaView& d, const Chunk& chunk, Workspace& w, int first_head) {
  const int ratio = d.value_heads / d.key_heads;
  for (int i = threadIdx.x; i < ratio * kChunk; i += kThreads) {
    const int which = i / kChunk, r = i % kChunk, head = first_head + which;
    float log_decay = 0, beta = 0;
    if (r < chunk.rows) {
      const int64_t row = chunk.first + r;
      const float x = get(d.a, row * d.a.stride[0] + head) + d.dt_bias[head];
      log_decay = -expf(d.a_log[head]) * (x > 20.0f ? x : log1pf(expf(x)));
      beta = sigmoid(get(d.b, row * d.b.stride[0] + head)) * d.beta_scale;
    }
    w.cumulated[which][r] = kLog2E * log_decay, w.beta[which][r] = beta;
  }
  __syncthreads();
  if (threadIdx.x < ratio) {
    float sum = 0;
    float* log_decay = w.cumulated[threadIdx.x];
#pragma unroll 16
    for (int r = 0; r < kChunk; ++r) log_decay[r] = sum += log_decay[r];
  }
  __syncthreads();
}

// For one value head: the strictly lower part of its system, what u_l adds to o_i, decays to and from the borders.
__device__ void apply_gates(const Workspace& w, int which, uint8_t* system, uint8_t* reads, float* decays) {
  const float *cumulated = w.cumulated[which], *betas = w.beta[which];
  if (threadIdx.x < kChunk) {
    const float since = power_of_two(cumulated[threadIdx.x]);
    decays[threadIdx.x] = since;
    decays[kChunk + threadIdx.x] = power_of_two(cumulated[kChunk - 1] - cumulated[threadIdx.x]);
    decays[2 * kChunk + threadIdx.x] = since * betas[threadIdx.x];
  }
#pragma unroll
  for (int item = threadIdx.x; item < kChunk * 8; item += kThreads) {
    const int i = item / 8, piece = item % 8, first = piece * 8;
    uint4 lower{}, mixes{};
    if (first <= i) {
      const float now = cumulated[i], beta = betas[i];
      const float *kk = w.kk + i * kProductStride + first, *qk = w.qk + i * kProductStride + first;
      const auto decay = [&](int n) { return first + n <= i ? power_of_two(now - cumulated[first + n]) : 0.0f; };
      const auto both = [&](int n, uint32_t& mix, uint32_t& low) {
        const float a = decay(n), b = decay(n + 1);
        mix = half_pair(a * qk[n], b * qk[n + 1]);
        low = half_pair(first + n < i ? beta * a * kk[n] : 0.0f, first + n + 1 < i ? beta * b * kk[n + 1] : 0.0f);
      };
      both(0, mixes.x, lower.x), both(2, mixes.y, lower.y), both(4, mixes.z, lower.z), both(6, mixes.w, lower.w);
    }
    *reinterpret_cast<uint4*>(system + swizzled(i, piece)) = lower;
    *reinterpret_cast<uint4*>(reads + swizzled(i, piece)) = mixes;
  }
}

// Inverts (1 + lower) of two blocks of 16 on the diagonal of a tile, in f32: half a warp a block, a lane a column.
__device__ void invert_diagonal(uint8_t* tile, int block) {
  const int lane = threadIdx.x % 32, column = lane % 16, first = 16 * (block + lane / 16), piece = first / 8;
  float x[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const uint4 low = *reinterpret_cast<const uint4*>(tile + swizzled(first + i, piece));
    const uint4 high = *reinterpret_cast<const uint4*>(tile + swizzled(first + i, piece + 1));
    const uint32_t row[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float sums[2] = {i == column ? 1.0f : 0.0f, 0};
#pragma unroll
    for (int l = 0; l < i; l += 2) {
      const float2 of = halves_of(row[l / 2]);
      sums[0] = fmaf(-of.x, x[l], sums[0]);
      if (l + 1 < i) sums[1] = fmaf(-of.y, x[l + 1], sums[1]);
    }
    x[i] = sums[0] + sums[1];
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16; ++i)
    *reinterpret_cast<__half*>(tile + swizzled(first + i, piece + column / 8) + column % 8 * 2) = __float2half_rn(x[i]);
  __syncwarp();
}

// Two inverted blocks of kSize = 16 kBlocks rows on the diagonal, and the block of the system below the first one: puts
// -(second inverse) (block) (first inverse) in its place.
template <int kBlocks>
__device__ void join_blocks(uint8_t* tile, int first) {
  const int lane = threadIdx.x % 32, below = first + 16 * kBlocks;
  const auto at = [&](int row, int column) { return tile + swizzled(row + lane % 16, column / 8 + lane / 16); };
  float out[kBlocks][2 * kBlocks][4] = {};
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
    float part[2 * kBlocks][4] = {};
    uint32_t a[4], b[4];
#pragma unroll
    for (int k = 0; k <= m; ++k) {
      load_fragment(a, at(below + 16 * m, below + 16 * k));
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        load_across(b, at(below + 16 * k, first + 16 * n));
        multiply_halves(part[2 * n], a, b[0], b[1]), multiply_halves(part[2 * n + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      const float(&low)[4] = part[2 * k], (&high)[4] = part[2 * k + 1];
      a[0] = half_pair(-low[0], -low[1]), a[1] = half_pair(-low[2], -low[3]);
      a[2] = half_pair(-high[0], -high[1]), a[3] = half_pair(-high[2], -high[3]);
#pragma unroll
      for (int n = 0; n <= k; ++n) {
        load_across(b, at(first + 16 * k, first + 16 * n));
        multiply_halves(out[m][2 * n], a, b[0], b[1]), multiply_halves(out[m][2 * n + 1], a, b[2], b[3]);
      }
    }
  }
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kBlocks; ++m)
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(tile + swizzled(below + 16 * m + lane / 4 + 8 * half, first / 8 + n) +
                                     lane % 4 * 4) = half_pair(out[m][n][2 * half], out[m][n][2 * half + 1]);
  __syncwarp();
}

// Inverts one plus the system in place, then copies it out; a warp does.
__device__ void invert(uint8_t* tile, uint8_t* to) {
  invert_diagonal(tile, 0), invert_diagonal(tile, 2);
  join_blocks<1>(tile, 0), join_blocks<1>(tile, 32);
  join_blocks<2>(tile, 0);
  for (int i = threadIdx.x % 32; i < kTileBytes / 16; i += 32)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(tile)[i];
}

template <typename Q>
__global__ void __launch_bounds__(kThreads, 2) prepare_kernel(DeltaView d, ChunkTiles tiles) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Workspace& w = *reinterpret_cast<Workspace*>(memory);
  const int64_t place = blockIdx.x;
  const int group = static_cast<int>(blockIdx.y), ratio = d.value_heads / d.key_heads, warp = threadIdx.x / 32;
  const Chunk chunk = chunk_at(d.rows, place);
  if (chunk.rows == 0) return;
  uint8_t* heads = tiles.heads + (place * d.key_heads + group) * kHeadTiles * kTileBytes;
  const int64_t at = place * d.value_heads + group * ratio;
  const auto mixes = [&](int which) { return tiles.mixes + (at + which) * kMixTiles * kTileBytes; };
  make_gates(d, chunk, w, group * ratio);
  for (int unit = warp; unit < 16 + 8 * ratio; unit += kThreads / 32) {
    const int first = unit % 8 * kStripRows,
              which = unit / 8;  // k, q, then the values
    const int head = which == 0   ? d.key_heads + group
                     : which == 1 ? group
                                  : 2 * d.key_heads + group * ratio + which - 2;
    Strip<Q> strip;
    strip.load(d, chunk, first, head * kHead);
    if (which < 2)
      make_keys(strip, first, chunk.rows, which == 0 ? 1.0f : 0.08838834764831845f, w.heads + which * 2 * kTileBytes,
                heads + which * 2 * kTileBytes);
    else
      make_values(strip, first, w.beta[which - 2], mixes(which - 2) + kMixValues * kTileBytes);
  }
  __syncthreads();
  multiply_keys(w);
  for (int first = 0; first < ratio; first += kTogether) {
    const int count = min(kTogether, ratio - first);
    __syncthreads();
    for (int i = 0; i < count; ++i)
      apply_gates(w, first + i, w.heads + i * kTileBytes, mixes(first + i) + kMixRead * kTileBytes,
                  tiles.decays + (at + first + i) * kDecays * kChunk);
    __syncthreads();
    if (warp < count) invert(w.heads + warp * kTileBytes, mixes(first + warp));
  }
}

}  // namespace

void prepare_chunks(cudaStream_t stream, const DeltaView& d, const ChunkTiles& tiles, int64_t places) {
  constexpr int kBytes = static_cast<int>(sizeof(Workspace));
  const dim3 grid(static_cast<unsigned>(places), static_cast<unsigned>(d.key_heads));
  with_quads(d, [&](auto quads) {
    const auto kernel = prepare_kernel<decltype(quads)>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<grid, kThreads, kBytes, stream>>>(d, tiles);
  });
}

}  // namespace braid::cuda
