// Where the chunk form keeps what its preparing kernel leaves for the walking one: tiles of bf16 as they will lie in
// shared memory (warp_group.h), so that a bulk copy brings them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "cuda/recurrent/delta_rule.h"

namespace braid::cuda {

constexpr int kChunk = 64, kHead = 128, kTaps = 4;
constexpr int kTileBytes = kChunk * 128;  // 64 rows of 64 columns
constexpr int kMostRatio = 8;             // value heads a key head

// A chunk is a number of places: the rows of sequence s begin at place starts[s] / 64 + 2 s, which leaves each
// sequence room for a short chunk at either end. Rows beyond a chunk's own are zero, with a decay of one.
struct ChunkTiles {
  // [place][key head][k columns 0..63, k 64..127, q 0..63, q 64..127]
  uint8_t* heads;
  // [place][value head]: what rows l add to the u of rows i, beta included, [i, l], upper limb and lower limb; what u_l
  // adds to o_i, [i, l]; v columns 0..63, 64..127
  uint8_t* mixes;
  // [place][value head][2][64] f32: decay from the chunk's start through row i; decay from after row i to its end
  float* decays;
};
constexpr int kHeadTiles = 4, kMixTiles = 5;
constexpr int kMixLow = 1, kMixRead = 2, kMixValues = 3;

struct Chunk {
  int32_t sequence = 0;
  int64_t start = 0;  // of the sequence, in rows of the pass
  int64_t first = 0;  // of the chunk
  int rows = 0;
};

__device__ inline int64_t first_place(const RowsView& rows, int32_t sequence) {
  return rows.starts[sequence] / kChunk + 2 * int64_t{sequence};
}

// The rows of a sequence in this pass. A sequence of one row has no chunks (`decode_rows`).
struct Run {
  int64_t start = 0;
  int before = 0, count = 0;  // rows of the first chunk before this pass; rows of this pass

  __device__ static Run of(const RowsView& rows, int32_t sequence) {
    const int32_t start = rows.starts[sequence], count = rows.starts[sequence + 1] - start;
    return {start, count < 2 ? 0 : rows.positions[start] % kChunk, count < 2 ? 0 : count};
  }
  __device__ int chunks() const { return (before + count + kChunk - 1) / kChunk; }
  // First row, from the sequence's start on, and the row behind the last one.
  __device__ int begin(int index) const { return max(index * kChunk - before, 0); }
  __device__ int end(int index) const { return min((index + 1) * kChunk - before, count); }
};

__device__ inline Chunk chunk_at(const RowsView& rows, int64_t place) {
  int32_t low = 0, high = rows.sequences - 1;
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (first_place(rows, middle) <= place)
      low = middle;
    else
      high = middle - 1;
  }
  const Run run = Run::of(rows, low);
  const int index = static_cast<int>(place - first_place(rows, low)), begin = run.begin(index);
  return {low, run.start, run.start + begin, max(run.end(index) - begin, 0)};
}

// Two numbers as a pair of bf16, the first one in the lower half.
__device__ inline uint32_t pair_of(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_of(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }
// What `pair` lacks of the two numbers it was made from.
__device__ inline uint32_t rest_of(float low, float high, uint32_t pair) {
  return pair_of(low - low_of(pair), high - high_of(pair));
}

// Four numbers in a row of qkv, z or out, which are of one type. As one vector where rows are aligned; no branch, so
// that loads of several rows run together.
template <typename T, bool kAligned>
struct Quads {
  using Raw = std::conditional_t<sizeof(T) == 4, float4, uint2>;

  __device__ static Raw load(const View& view, int64_t at) {
    const T* from = static_cast<const T*>(view.data) + at;
    if constexpr (kAligned) return *reinterpret_cast<const Raw*>(from);
    Raw out;
    T* to = reinterpret_cast<T*>(&out);
    to[0] = from[0], to[1] = from[1], to[2] = from[2], to[3] = from[3];
    return out;
  }
  __device__ static float4 widen(Raw raw) {
    if constexpr (sizeof(T) == 4)
      return raw;
    else
      return {low_of(raw.x), high_of(raw.x), low_of(raw.y), high_of(raw.y)};
  }
  __device__ static void store(const View& view, int64_t at, float4 x) {
    T* to = static_cast<T*>(view.data) + at;
    Raw raw;
    if constexpr (sizeof(T) == 4)
      raw = x;
    else
      raw = {pair_of(x.x, x.y), pair_of(x.z, x.w)};
    if constexpr (kAligned) {
      *reinterpret_cast<Raw*>(to) = raw;
    } else {
      const T* from = reinterpret_cast<const T*>(&raw);
      to[0] = from[0], to[1] = from[1], to[2] = from[2], to[3] = from[3];
    }
  }
};

// Calls `launch` with the Quads of the op's activations.
template <typename Launch>
void with_quads(const DeltaView& d, const Launch& launch) {
  if (d.out.bf16)
    d.aligned ? launch(Quads<uint16_t, true>{}) : launch(Quads<uint16_t, false>{});
  else
    d.aligned ? launch(Quads<float, true>{}) : launch(Quads<float, false>{});
}

// Fills the tiles of `places` places, and leaves the convolution's context as it is.
void prepare_chunks(cudaStream_t stream, const DeltaView& d, const ChunkTiles& tiles, int64_t places);
// Computes the sequences that have one row, and no other.
void decode_rows(cudaStream_t stream, const DeltaView& d);
// Walks the chunks of every sequence: states and outputs.
void walk_chunks(cudaStream_t stream, const DeltaView& d, const ChunkTiles& tiles, int limbs);

}  // namespace braid::cuda
