// Where the chunk form keeps what its preparing kernel leaves for the walking one: tiles of f16 as they will lie in
// shared memory (warp_group.h), so that a bulk copy brings them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include <type_traits>

#include "cuda/common/context.h"
#include "cuda/recurrent/delta_rule.h"

namespace braid::cuda {

constexpr int kChunk = 64, kHead = 128, kTaps = 4;
constexpr int kTileBytes = kChunk * 128;  // 64 rows of 64 columns
constexpr int kMostRatio = 8;             // value heads a key head

// A chunk is a number of places: the rows of sequence s begin at place starts[s] / 64 + 2 s, which leaves each sequence
// room for a short chunk at either end. Rows beyond a chunk's own are zero, with a decay of one.
struct ChunkTiles {
  // [place][key head][k columns 0..63, k 64..127, q 0..63, q 64..127]
  uint8_t* heads;
  // [place][value head][inverse of the rows' system times beta_l, [i, l]; what u_l adds to o_i, [i, l]]
  uint8_t* mixes;
  // [place][value head][2][64] f32: decay from the chunk's start through row i; from after row i to the chunk's end
  float* decays;
};
constexpr int kHeadTiles = 4, kMixTiles = 2, kDecays = 2;
constexpr int kMixRead = 1;

struct Chunk {
  int32_t sequence = 0;
  int64_t start = 0;  // of the sequence, in rows of the pass
  int64_t first = 0;  // of the chunk
  int rows = 0;
};

__device__ inline int64_t first_place(const RowsView& rows, int32_t sequence) {
  return rows.starts[sequence] / kChunk + 2 * int64_t{sequence};
}

// The rows of a sequence in this pass. Chunks of a single row, the first or the last one, are not among `chunks`: they
// are `Single`.
struct Run {
  int64_t start = 0;
  int before = 0,
      count = 0;  // rows of the first chunk before this pass; rows of this pass

  __device__ static Run of(const RowsView& rows, int32_t sequence) {
    const int32_t start = rows.starts[sequence], count = rows.starts[sequence + 1] - start;
    return {start, count == 0 ? 0 : rows.positions[start] % kChunk, count};
  }
  __device__ bool single_first() const { return count == 1 || (count > 1 && before == kChunk - 1); }
  __device__ bool single_last() const { return count > 1 && (before + count) % kChunk == 1; }
  __device__ int first_chunk() const { return single_first() ? 1 : 0; }
  __device__ int chunks() const {
    return max((before + count + kChunk - 1) / kChunk - first_chunk() - (single_last() ? 1 : 0), 0);
  }
  // First row of a chunk, from the sequence's start on, and the row behind its last one; chunks are counted from the
  // one in which the pass begins.
  __device__ int begin(int index) const { return max(index * kChunk - before, 0); }
  __device__ int end(int index) const { return min((index + 1) * kChunk - before, count); }
};

// A row that is alone in its chunk of this pass: the first or the last one of a sequence.
struct Single {
  bool present = false, moves = false;  // moves: it is the whole pass, and moves
                                        // the convolution's context on
  int32_t sequence = 0;
  int64_t start = 0, row = 0;

  __device__ static Single of(const RowsView& rows, int32_t sequence, bool last) {
    const Run run = Run::of(rows, sequence);
    return {last ? run.single_last() : run.single_first(), run.count == 1, sequence, run.start,
            last ? run.start + run.count - 1 : run.start};
  }
};

// No rows where the place is not that of a chunk. All lanes of a warp look for its sequence.
__device__ inline Chunk chunk_at(const RowsView& rows, int64_t place) {
  int32_t begun = 0;  // sequences that begin at the place or before it
  for (int32_t from = 0; from < rows.sequences && begun == from; from += 32) {
    const int32_t sequence = from + static_cast<int32_t>(threadIdx.x) % 32;
    const bool before = sequence < rows.sequences && first_place(rows, sequence) <= place;
    begun += __popc(__ballot_sync(kAllLanes, before));
  }
  const int32_t sequence = begun - 1;
  const Run run = Run::of(rows, sequence);
  const int index = static_cast<int>(place - first_place(rows, sequence)), begin = run.begin(index);
  const bool own = index >= run.first_chunk() && index < run.first_chunk() + run.chunks();
  return {sequence, run.start, run.start + begin, own ? run.end(index) - begin : 0};
}

// Two numbers as a pair, the first one in the lower half.
__device__ inline uint32_t pair_of(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
__device__ inline float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_of(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

// The same in f16, which has three bits more; beyond its range, 65504, numbers become its largest.
__device__ inline uint32_t half_pair(float low, float high) {
  uint32_t out;
#if __CUDA_ARCH__ >= 860
  // Two instructions; the conversion that saturates takes as long as six.
  asm("cvt.rn.f16x2.f32 %0, %1, %2;\nmin.NaN.xorsign.abs.f16x2 %0, %0, %3;"
      : "=r"(out)
      : "f"(high), "f"(low), "r"(0x7BFF7BFFu));
#else
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
#endif
  return out;
}
__device__ inline float2 halves_of(uint32_t pair) { return __half22float2(reinterpret_cast<const __half2&>(pair)); }

__device__ inline float power_of_two(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}
constexpr float kLog2E = 1.4426950408889634f;

// The activation of the convolution's sums, whose taps are made to give -log2(e) times them.
constexpr float kUnscaled = -0.6931471805599453f;
__device__ inline float4 scaled(float4 tap) {
  return {-kLog2E * tap.x, -kLog2E * tap.y, -kLog2E * tap.z, -kLog2E * tap.w};
}
__device__ inline float silu_of_scaled(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(fmaf(power_of_two(x), 1 / kUnscaled, 1 / kUnscaled)));
  return x * out;
}

// 1 / (1 + e^-x) within a few units; zero where e^-x is beyond 2^127.
__device__ inline float quick_sigmoid(float x) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(1.0f + power_of_two(x * -kLog2E)));
  return out;
}

// Four numbers in a row of qkv, z or out, which are of one type. As one vector where rows are aligned; no branch, so
// that loads of several rows run together.
template <typename T, bool kAligned>
struct Quads {
  using Number = T;
  using Raw = std::conditional_t<sizeof(T) == 4, float4, uint2>;
  // Rows of a convolution that are asked for ahead: as registers allow.
  static constexpr int kAhead = sizeof(T) == 4 ? 6 : 11;

  __device__ static Raw load(const View& view, int64_t at) {
    const T* from = static_cast<const T*>(view.data) + at;
    if constexpr (kAligned) return *reinterpret_cast<const Raw*>(from);
    Raw out;
    T* to = reinterpret_cast<T*>(&out);
    to[0] = from[0], to[1] = from[1], to[2] = from[2], to[3] = from[3];
    return out;
  }
  __device__ static float load_one(const View& view, int64_t at) {
    const T number = static_cast<const T*>(view.data)[at];
    if constexpr (sizeof(T) == 4)
      return number;
    else
      return __uint_as_float(uint32_t{number} << 16);
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
void prepare_chunks(Context& context, const DeltaView& d, const ChunkTiles& tiles, int64_t places);
// Computes the rows that are alone in the first chunk of a sequence, or those in the last one.
void decode_rows(Context& context, const DeltaView& d, bool last);

// A long sequence of few heads is cut into parts of as many chunks, which run at once (docs/delta_rule.md).
struct Parts {
  int count = 1;
  // [sequence][value head][count][128][128]: the state before each part; behind the measuring walk, from the second one
  // on, what the part before it adds to a state
  float* states = nullptr;
  // [sequence][value head][count][128][128]: the matrix that carries a state over the part, transposed
  float* moves = nullptr;

  __device__ int64_t at(const DeltaView& d, int32_t sequence, int head, int part) const {
    return ((int64_t{sequence} * d.value_heads + head) * count + part) * kHead * kHead;
  }
  __device__ int each(const Run& run) const { return (run.chunks() + count - 1) / count; }
};

// Walks the chunks of every sequence: states and outputs.
void walk_chunks(Context& context, const DeltaView& d, const ChunkTiles& tiles, const Parts& parts);
// From what the measuring walk left to the state before each part.
void join_parts(Context& context, const DeltaView& d, const Parts& parts);

}  // namespace braid::cuda
