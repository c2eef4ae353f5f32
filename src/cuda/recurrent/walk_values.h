// The four warps that make v of the block's columns, a chunk ahead of the state: convolution and activation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/recurrent/walk.h"

namespace braid::cuda {

// Half a warp a row, eight rows of the chunk and four columns a thread.
template <typename Q>
struct Values {
  static constexpr int kRows = 8, kAll = kRows + kTaps - 1, kAhead = Q::kAhead;  // kAll: that the taps reach
  typename Q::Raw raw[kAhead];
  float4 taps[4];
  int column = threadIdx.x % 16 * 4, first = threadIdx.x % 128 / 16 * kRows, channel;

  __device__ Values(const DeltaView& d, const Walk& walk) {
    channel = (2 * d.key_heads + walk.head) * kHead + walk.slice * kColumns + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = scaled(reinterpret_cast<const float4*>(d.conv)[channel + i]);
  }
  // The thread's rows of a chunk, counted from the sequence's start: the first that its taps reach and the chunk's
  // last.
  struct Source {
    int row, last;
    int64_t base;
  };
  __device__ Source source(const DeltaView& d, const Walk& walk, int c) const {
    const int row = walk.begin(c) + first - (kTaps - 1);
    return {row, walk.end(c) - 1, (walk.run.start + row) * d.qkv.stride[0] + channel};
  }
  // Rows outside of the pass are those at its ends instead: beta is zero there, or the convolution's context counts.
  __device__ __forceinline__ void ask(const DeltaView& d, const Source& from, int r) {
    const int within = min(r, from.last - from.row), at = r < kTaps - 1 ? max(within, -from.row) : within;
    raw[r % kAhead] = Q::load(d.qkv, from.base + int64_t{at} * static_cast<int>(d.qkv.stride[0]));
  }
  __device__ void begin(const DeltaView& d, const Source& from) {
#pragma unroll
    for (int r = 0; r < kAhead; ++r) ask(d, from, r);
  }
  // Row r, whose registers go to the row that comes `kAhead` rows later.
  __device__ __forceinline__ float4 take(const DeltaView& d, const Source& now, const Source& next, int r) {
    const float4 x = Q::widen(raw[r % kAhead]);
    r + kAhead < kAll ? ask(d, now, r + kAhead) : ask(d, next, r % kAhead);
    return x;
  }
  // The rows of `now`; those of `next` are asked for on the way.
  __device__ void make(const DeltaView& d, const Walk& walk, const Source& now, const Source& next, uint8_t* tile) {
    float4 x[kTaps];
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = take(d, now, next, r);
    if (now.row < 0) {
      const float* context = d.conv_state + int64_t{d.rows.slots[walk.sequence]} * (kTaps - 1) * d.channels + channel;
#pragma unroll
      for (int r = 0; r < kTaps - 1; ++r)
        if (now.row + r < 0) x[r] = *reinterpret_cast<const float4*>(context + (now.row + r + kTaps - 1) * d.channels);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[3] = take(d, now, next, r + 3);
      const auto at = [](const float4& tap, float a, float m, float n, float e) {
        return silu_of_scaled(fmaf(tap.w, e, fmaf(tap.z, n, fmaf(tap.y, m, tap.x * a))));
      };
      *reinterpret_cast<uint2*>(tile + swizzled(first + r, column / 8) + column % 8 * 2) = {
          half_pair(at(taps[0], x[0].x, x[1].x, x[2].x, x[3].x), at(taps[1], x[0].y, x[1].y, x[2].y, x[3].y)),
          half_pair(at(taps[2], x[0].z, x[1].z, x[2].z, x[3].z), at(taps[3], x[0].w, x[1].w, x[2].w, x[3].w))};
      x[0] = x[1], x[1] = x[2], x[2] = x[3];
      // Else the compiler makes all rows' sums before the first activations, and they do not fit.
      if (r % 2 == 1) __syncwarp();
    }
  }
};

// Brings what chunk `c` will need of v and z to L2, half the threads each, a row a thread.
template <typename Q>
__device__ void prefetch_rows(const DeltaView& d, const Walk& walk, int c) {
  const int row = walk.begin(c) + static_cast<int>(threadIdx.x) % kChunk;
  if (c >= walk.chunks || row >= walk.end(c)) return;
  const bool of_v = threadIdx.x % 128 < kChunk;
  const View& view = of_v ? d.qkv : d.z;
  const int column = ((of_v ? 2 * d.key_heads : 0) + walk.head) * kHead + walk.slice * kColumns;
  const char* at = static_cast<const char*>(view.data) +
                   ((walk.run.start + row) * view.stride[0] + column) * static_cast<int>(sizeof(typename Q::Number));
  prefetch_line(at);
  if constexpr (sizeof(typename Q::Number) == 4) prefetch_line(at + 128);
}

template <typename Q>
__device__ void make_values(const DeltaView& d, const Walk& walk, Shared& shared) {
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
  auto now = values.source(d, walk, 0);
  values.begin(d, now);
  constexpr int kDistance = 3;
  for (int c = 1; c < kDistance; ++c) prefetch_rows<Q>(d, walk, c);
  for (int c = 0; c < walk.chunks; ++c) {
    prefetch_rows<Q>(d, walk, c + kDistance);
    const int at = c % 2;
    const auto next = values.source(d, walk, min(c + 1, walk.chunks - 1));
    barrier_wait(&shared.values_emptied[at], (c / 2 + 1) % 2);
    values.make(d, walk, now, next, shared.values[at]);
    barrier_arrive(&shared.values_filled[at]);
    now = next;
  }
}

}  // namespace braid::cuda
