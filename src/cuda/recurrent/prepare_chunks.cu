// What the rows of a chunk need before the state is known, a block a chunk and key head: convolution, lengths, products
// of keys, gates, and for each value head the inverse of its triangular system, in f32 (docs/delta_rule.md).
// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/tensor_core.h"
#include "cuda/recurrent/arrival.h"
#include "cuda/recurrent/chunks.h"
#include "cuda/recurrent/warp_group.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kStripRows = 8, kProductStride = 72, kTogether = 3;

struct Workspace {
  uint8_t heads[kHeadTiles * kTileBytes];  // k and q; later the systems of the second and third head
  float kk[kChunk * kProductStride];
  float qk[kChunk * kProductStride];    // later the system of the first head
  float cumulated[kMostRatio][kChunk];  // log decay through each row
  float beta[kMostRatio][kChunk];
};

__device__ float* system_of(Workspace& w, int which) {
  return which == 0 ? w.qk : reinterpret_cast<float*>(w.heads) + (which - 1) * kChunk * kChunk;
}

// 1 / (1 + e^-x) within a few units, with the fast exponential.
__device__ float quick_silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// Eight rows of 128 channels from `channel` on, convolved and activated: channels 4 lane .. 4 lane + 3 of each.
struct Strip {
  float4 y[kStripRows];

  template <typename Q>
  __device__ void convolve(const DeltaView& d, const Chunk& chunk, int first, int channel) {
    const int c = channel + static_cast<int>(threadIdx.x) % 32 * 4;
    const int64_t row = chunk.first + first - (kTaps - 1), last = chunk.first + chunk.rows - 1;
    typename Q::Raw raw[kStripRows + kTaps - 1];
#pragma unroll
    for (int r = 0; r < kStripRows + kTaps - 1; ++r)
      raw[r] = Q::load(d.qkv, max(min(row + r, last), chunk.start) * d.qkv.stride[0] + c);
    float4 taps[4], x[kTaps];
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = reinterpret_cast<const float4*>(d.conv)[c + i];
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = Q::widen(raw[r]);
    if (row < chunk.start) {
      const float* context = d.conv_state + int64_t{d.rows.slots[chunk.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
      for (int r = 0; r < kTaps - 1; ++r)
        if (row + r < chunk.start)
          x[r] = *reinterpret_cast<const float4*>(context + (row + r - chunk.start + kTaps - 1) * d.channels);
    }
#pragma unroll
    for (int r = 0; r < kStripRows; ++r) {
      x[3] = Q::widen(raw[r + 3]);
      const auto at = [&](const float4& tap, float a, float b, float c, float e) {
        return quick_silu(fmaf(tap.w, e, fmaf(tap.z, c, fmaf(tap.y, b, tap.x * a))));
      };
      y[r] = {at(taps[0], x[0].x, x[1].x, x[2].x, x[3].x), at(taps[1], x[0].y, x[1].y, x[2].y, x[3].y),
              at(taps[2], x[0].z, x[1].z, x[2].z, x[3].z), at(taps[3], x[0].w, x[1].w, x[2].w, x[3].w)};
      if (first + r >= chunk.rows) y[r] = {};
      x[0] = x[1], x[1] = x[2], x[2] = x[3];
    }
  }
  __device__ void scale_to_unit(float length) {
#pragma unroll
    for (int r = 0; r < kStripRows; ++r) {
      const float squares = sum_of_warp(y[r].x * y[r].x + y[r].y * y[r].y + y[r].z * y[r].z + y[r].w * y[r].w);
      const float factor = length / sqrtf(squares + 1e-6f);
      y[r].x *= factor, y[r].y *= factor, y[r].z *= factor, y[r].w *= factor;
    }
  }
  // Into two tiles of 64 columns.
  __device__ void store(uint8_t* tiles, int first) const {
    const int lane = threadIdx.x % 32, piece = lane % 16 / 2;
#pragma unroll
    for (int r = 0; r < kStripRows; ++r)
      *reinterpret_cast<uint2*>(tiles + lane / 16 * kTileBytes + swizzled(first + r, piece) + lane % 2 * 8) = {
          pair_of(y[r].x, y[r].y), pair_of(y[r].z, y[r].w)};
  }
};

__device__ void load_fragment(uint32_t (&out)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(at)));
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
      multiply_add(sums[2 * j], a, {b[0], b[1]});
      multiply_add(sums[2 * j + 1], a, {b[2], b[3]});
    }
  }
  float* out = (warp / 4 == 0 ? w.kk : w.qk) + (first + lane / 4) * kProductStride + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    *reinterpret_cast<float2*>(out + 8 * j) = {sums[j][0], sums[j][1]};
    *reinterpret_cast<float2*>(out + 8 * kProductStride + 8 * j) = {sums[j][2], sums[j][3]};
  }
}

// Log decays and betas of the value heads, then the decays cumulated in order.
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
    w.cumulated[which][r] = log_decay, w.beta[which][r] = beta;
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

// Decays to and from the chunk's borders, and what u_l adds to o_i.
__device__ void write_reads(const Workspace& w, int which, uint8_t* mixes, float* decays) {
  const float* cumulated = w.cumulated[which];
  if (threadIdx.x < kChunk) {
    decays[threadIdx.x] = __expf(cumulated[threadIdx.x]);
    decays[kChunk + threadIdx.x] = __expf(cumulated[kChunk - 1] - cumulated[threadIdx.x]);
  }
  for (int item = threadIdx.x; item < kChunk * 8; item += kThreads) {
    const int i = item / 8, piece = item % 8;
    float mix[8] = {};
    if (piece * 8 <= i)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        if (const int l = piece * 8 + n; l <= i)
          mix[n] = __expf(cumulated[i] - cumulated[l]) * w.qk[i * kProductStride + l];
    *reinterpret_cast<uint4*>(mixes + kMixRead * kTileBytes + swizzled(i, piece)) = {
        pair_of(mix[0], mix[1]), pair_of(mix[2], mix[3]), pair_of(mix[4], mix[5]), pair_of(mix[6], mix[7])};
  }
}

// The strictly lower part of a head's system.
__device__ void write_system(Workspace& w, int which, int place) {
  float* system = system_of(w, place);
  const float* cumulated = w.cumulated[which];
  for (int item = threadIdx.x; item < kChunk * 16; item += kThreads) {
    const int i = item / 16, first = item % 16 * 4;
    float row[4] = {};
    if (first < i)
#pragma unroll
      for (int n = 0; n < 4; ++n)
        if (const int l = first + n; l < i)
          row[n] = w.beta[which][i] * __expf(cumulated[i] - cumulated[l]) * w.kk[i * kProductStride + l];
    *reinterpret_cast<float4*>(system + i * kChunk + first) = {row[0], row[1], row[2], row[3]};
  }
}

// Column kFirst + lane of the inverse of one plus the system, by substitution, times that row's beta.
template <int kFirst>
__device__ void solve(const float* system, float beta, uint8_t* mixes) {
  const int lane = threadIdx.x % 32, column = kFirst + lane;
  float x[kChunk];
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    float sums[4] = {i == column ? 1.0f : 0.0f, 0, 0, 0};
#pragma unroll
    for (int l = kFirst; l < i; l += 4) {
      const float4 row = *reinterpret_cast<const float4*>(system + i * kChunk + l);
      sums[0] -= row.x * x[l];
      if (l + 1 < i) sums[1] -= row.y * x[l + 1];
      if (l + 2 < i) sums[2] -= row.z * x[l + 2];
      if (l + 3 < i) sums[3] -= row.w * x[l + 3];
    }
    x[i] = i < kFirst ? 0.0f : (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  // Lanes exchange so that each has two columns of one of two rows.
#pragma unroll
  for (int i = 0; i < kChunk; i += 2) {
    const float own = x[i] * beta, other = x[i + 1] * beta;
    const float got = __shfl_xor_sync(kAllLanes, lane % 2 == 0 ? other : own, 1);
    const float low = lane % 2 == 0 ? own : got, high = lane % 2 == 0 ? got : other;
    const int at = swizzled(i + lane % 2, column / 8) + column % 8 / 2 * 4;
    const uint32_t upper = pair_of(low, high);
    *reinterpret_cast<uint32_t*>(mixes + at) = upper;
    *reinterpret_cast<uint32_t*>(mixes + kMixLow * kTileBytes + at) = rest_of(low, high, upper);
  }
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
  const int64_t first_head = group * ratio, at = place * d.value_heads + first_head;
  uint8_t* mixes = tiles.mixes + at * kMixTiles * kTileBytes;
  for (int unit = warp; unit < 16 + 8 * ratio; unit += kThreads / 32) {
    const int first = unit % 8 * kStripRows, which = unit / 8;  // k, q, then the values
    Strip strip;
    const int channel = which == 0   ? d.key_heads + group
                        : which == 1 ? group
                                     : 2 * d.key_heads + group * ratio + which - 2;
    strip.convolve<Q>(d, chunk, first, channel * kHead);
    if (which < 2) {
      strip.scale_to_unit(which == 0 ? 1.0f : 0.08838834764831845f);
      strip.store(w.heads + which * 2 * kTileBytes, first);
      strip.store(heads + which * 2 * kTileBytes, first);
    } else {
      strip.store(mixes + ((which - 2) * kMixTiles + kMixValues) * kTileBytes, first);
    }
  }
  __syncthreads();
  multiply_keys(w);
  make_gates(d, chunk, w, static_cast<int>(first_head));
  for (int which = 0; which < ratio; ++which)
    write_reads(w, which, mixes + which * kMixTiles * kTileBytes, tiles.decays + (at + which) * 2 * kChunk);
  for (int first = 0; first < ratio; first += kTogether) {
    const int count = min(kTogether, ratio - first);
    __syncthreads();
    for (int i = 0; i < count; ++i) write_system(w, first + i, i);
    __syncthreads();
    const int which = first + warp / 2, lane = threadIdx.x % 32;
    if (warp / 2 >= count) continue;
    uint8_t* to = mixes + which * kMixTiles * kTileBytes;
    if (warp % 2 == 0)
      solve<0>(system_of(w, warp / 2), w.beta[which][lane], to);
    else
      solve<32>(system_of(w, warp / 2), w.beta[which][32 + lane], to);
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
