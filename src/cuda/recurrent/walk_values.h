// The four warps that make beta v of the block's columns, a chunk ahead of the state: convolution and activation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/recurrent/walk.h"

namespace braid::cuda {

// Half a warp a row, eight rows of the chunk and four columns a thread.
template <typename Q>
struct Values {
  static constexpr int kRows = 8;
  typename Q::Raw raw[kRows + kTaps - 1];
  float4 taps[4], beta[2];
  int column = threadIdx.x % 16 * 4, first = threadIdx.x % 128 / 16 * kRows, channel;

  __device__ Values(const DeltaView& d, const Walk& walk) {
    channel = (2 * d.key_heads + walk.head) * kHead + walk.slice * kColumns + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = scaled(reinterpret_cast<const float4*>(d.conv)[channel + i]);
  }
  __device__ void load(const DeltaView& d, const ChunkTiles& tiles, const Walk& walk, int c) {
    const float* decays = tiles.decays + ((walk.place + c) * d.value_heads + walk.head) * kDecays * kChunk;
    const float4* from = reinterpret_cast<const float4*>(decays + 3 * kChunk + first);
    beta[0] = from[0], beta[1] = from[1];
    const int row = walk.begin(c) + first - (kTaps - 1), last = walk.end(c) - 1;
    const int64_t base = walk.run.start * d.qkv.stride[0] + channel;
    if (row >= 0 && row + kRows + kTaps - 2 <= last) {
#pragma unroll
      for (int r = 0; r < kRows + kTaps - 1; ++r) raw[r] = Q::load(d.qkv, base + int64_t{row + r} * d.qkv.stride[0]);
    } else {
#pragma unroll
      for (int r = 0; r < kRows + kTaps - 1; ++r)
        raw[r] = Q::load(d.qkv, base + max(min(row + r, last), 0) * d.qkv.stride[0]);
    }
  }
  // beta is zero beyond the chunk's rows.
  __device__ void make(const DeltaView& d, const Walk& walk, int c, uint8_t* tile) {
    const float betas[kRows] = {beta[0].x, beta[0].y, beta[0].z, beta[0].w, beta[1].x, beta[1].y, beta[1].z, beta[1].w};
    const int row = walk.begin(c) + first - (kTaps - 1);
    float4 x[kTaps];
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = Q::widen(raw[r]);
    if (row < 0) {
      const float* context = d.conv_state + int64_t{d.rows.slots[walk.sequence]} * (kTaps - 1) * d.channels + channel;
#pragma unroll
      for (int r = 0; r < kTaps - 1; ++r)
        if (row + r < 0) x[r] = *reinterpret_cast<const float4*>(context + (row + r + kTaps - 1) * d.channels);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[3] = Q::widen(raw[r + 3]);
      const float b = kUnscaled * betas[r];
      const auto at = [&](const float4& tap, float a, float m, float n, float e) {
        return b * scaled_silu(fmaf(tap.w, e, fmaf(tap.z, n, fmaf(tap.y, m, tap.x * a))));
      };
      *reinterpret_cast<uint2*>(tile + swizzled(first + r, column / 8) + column % 8 * 2) = {
          half_pair(at(taps[0], x[0].x, x[1].x, x[2].x, x[3].x), at(taps[1], x[0].y, x[1].y, x[2].y, x[3].y)),
          half_pair(at(taps[2], x[0].z, x[1].z, x[2].z, x[3].z), at(taps[3], x[0].w, x[1].w, x[2].w, x[3].w))};
      x[0] = x[1], x[1] = x[2], x[2] = x[3];
    }
  }
};

template <typename Q>
__device__ void make_values(const DeltaView& d, const ChunkTiles& tiles, const Walk& walk, Shared& shared) {
  if (walk.carries) {  // no values
    for (int i = threadIdx.x % 128; i < 2 * kTileBytes / 16; i += 128)
      reinterpret_cast<uint4*>(shared.values[0])[i] = {};
    barrier_arrive(&shared.values_filled[0]);
    for (int c = 1; c < walk.chunks; ++c) {
      barrier_wait(&shared.values_emptied[c % 2], (c / 2 + 1) % 2);
      barrier_arrive(&shared.values_filled[c % 2]);
    }
    return;
  }
  Values<Q> values(d, walk);
  values.load(d, tiles, walk, 0);
  for (int c = 0; c < walk.chunks; ++c) {
    const int at = c % 2;
    barrier_wait(&shared.values_emptied[at], (c / 2 + 1) % 2);
    values.make(d, walk, c, shared.values[at]);
    barrier_arrive(&shared.values_filled[at]);
    if (c + 1 < walk.chunks) values.load(d, tiles, walk, c + 1);
  }
}

}  // namespace braid::cuda
