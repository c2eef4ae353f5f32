// What the rows of a chunk need before the state is known, a block a chunk and key head: convolution, lengths, products
// of keys, gates, and for each value head the inverse of its triangular system (docs/delta_rule.md). Bounded by the
// instructions of the convolution's activation.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/arrival.h"
#include "cuda/common/start.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"
#include "cuda/recurrent/inverse.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kStripRows = 16;
constexpr int kBlocks = 3;             // of a multiprocessor
constexpr int kTogether = kHeadTiles;  // value heads whose systems are solved at once

struct Workspace {
  float cumulated[kMostRatio][kChunk];  // log2 of the decay through each row
  float beta[kMostRatio][kChunk];
  alignas(1024) uint8_t
      heads[kHeadTiles * kTileBytes];  // k and q; later the systems of `kTogether` value heads or fewer, then reads

  __device__ uint8_t* system(int i) { return heads + i * kTileBytes; }
  __device__ uint8_t* read(int count, int i) { return heads + (count + i) * kTileBytes; }
  static int bytes(int ratio) {
    const int more = 2 * std::min(ratio, kTogether) - kHeadTiles;
    return static_cast<int>(sizeof(Workspace)) + std::max(more, 0) * kTileBytes;
  }
};

// Sixteen rows of the 128 channels from `channel` on; a lane has channels 4 lane .. 4 lane + 3.
template <typename Q>
struct Strip {
  static constexpr int kAll = kStripRows + kTaps - 1, kAhead = Q::kAhead;  // kAll: rows that the taps reach
  typename Q::Raw raw[kAhead];
  float4 taps[4], x[kTaps];
  int row, last;  // the first row that the taps reach and the chunk's last one, from the sequence's start on
  int64_t base;

  __device__ Strip(const DeltaView& d, const Chunk& chunk, int first, int channel) {
    const int before = static_cast<int>(chunk.first - chunk.start);
    row = before + first - (kTaps - 1), last = before + chunk.rows - 1;
    base = (chunk.start + row) * d.qkv.stride[0] + channel + threadIdx.x % 32 * 4;
#pragma unroll
    for (int r = 0; r < kAhead; ++r) ask(d, r);
  }
  __device__ __forceinline__ void ask(const DeltaView& d, int r) {
    const int within = min(r, last - row), at = r < kTaps - 1 ? max(within, -row) : within;
    raw[r % kAhead] = Q::load(d.qkv, base + int64_t{at} * static_cast<int>(d.qkv.stride[0]));
  }
  // Row r, whose registers go to the row that comes `kAhead` rows later.
  __device__ __forceinline__ float4 take(const DeltaView& d, int r) {
    const float4 out = Q::widen(raw[r % kAhead]);
    if (r + kAhead < kAll) ask(d, r + kAhead);
    return out;
  }
  __device__ void begin(const DeltaView& d, const Chunk& chunk, int channel) {
    const int c = channel + threadIdx.x % 32 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = scaled(reinterpret_cast<const float4*>(d.conv)[c + i]);
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = take(d, r);
    if (row >= 0) return;
    const float* context = d.conv_state + int64_t{d.rows.slots[chunk.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r)
      if (row + r < 0) x[r] = *reinterpret_cast<const float4*>(context + (row + r + kTaps - 1) * d.channels);
  }
  // The next row, convolved and activated.
  __device__ __forceinline__ float4 next(const DeltaView& d, int r) {
    x[3] = take(d, r + kTaps - 1);
    const auto at = [](const float4& tap, float a, float b, float c, float e) {
      return silu_of_scaled(fmaf(tap.w, e, fmaf(tap.z, c, fmaf(tap.y, b, tap.x * a))));
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

// Rows of k or q of unit length, times `length`; rows beyond the chunk's are zero. Four rows abreast.
template <typename Q>
__device__ void make_keys(const DeltaView& d, Strip<Q>& strip, int first, int rows, float length, uint8_t* tiles) {
  constexpr int kAbreast = 2;
#pragma unroll
  for (int from = 0; from < kStripRows; from += kAbreast) {
    float4 y[kAbreast];
    float squares[kAbreast];
#pragma unroll
    for (int r = 0; r < kAbreast; ++r) {
      y[r] = strip.next(d, from + r);
      squares[r] = y[r].x * y[r].x + y[r].y * y[r].y + y[r].z * y[r].z + y[r].w * y[r].w;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
      for (int r = 0; r < kAbreast; ++r) squares[r] += __shfl_xor_sync(kAllLanes, squares[r], offset);
#pragma unroll
    for (int r = 0; r < kAbreast; ++r) {
      const int row = first + from + r;
      const float factor = (row < rows ? length : 0.0f) * rsqrtf(squares[r] + 1e-6f);
      *reinterpret_cast<uint2*>(tiles + place_in_tiles(row)) = {half_pair(y[r].x * factor, y[r].y * factor),
                                                                half_pair(y[r].z * factor, y[r].w * factor)};
    }
  }
}

// Log decays of each row by itself, and betas: a thread a row and value head.
__device__ void make_gates(const DeltaView& d, const Chunk& chunk, Workspace& w, int first_head) {
  const int r = threadIdx.x % kChunk;
  const int64_t row = chunk.first + min(r, chunk.rows - 1);
  for (int which = threadIdx.x / kChunk; which < d.value_heads / d.key_heads; which += kThreads / kChunk) {
    const int head = first_head + which;
    const float x = get(d.a, row * d.a.stride[0] + head) + d.dt_bias[head];
    const float rate = -expf(d.a_log[head]) * (x > 20.0f ? x : log1pf(expf(x)));
    const float beta = sigmoid(get(d.b, row * d.b.stride[0] + head)) * d.beta_scale;
    w.cumulated[which][r] = r < chunk.rows ? kLog2E * rate : 0.0f;
    w.beta[which][r] = r < chunk.rows ? beta : 0.0f;
  }
}

// Cumulates them in order, a lane a value head.
__device__ void cumulate(Workspace& w, int heads) {
  if (threadIdx.x >= heads) return;
  float* log_decay = w.cumulated[threadIdx.x];
  float sum = 0;
#pragma unroll 16
  for (int r = 0; r < kChunk; ++r) log_decay[r] = sum += log_decay[r];
}

// Calls `f` with this warp's block of 16 rows as a constant, so that what depends on it is straight code.
template <typename F>
__device__ void with_block(const F& f) {
  switch (threadIdx.x / 32 % 4) {
    case 0:
      return f(std::integral_constant<int, 0>{});
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    default:
      return f(std::integral_constant<int, 3>{});
  }
}

// Products of rows on and below the diagonal, 16 rows a warp: the first four warps have k k^T, the others q k^T.
struct Products {
  float sums[8][4] = {};
  bool of_keys = threadIdx.x < 128;

  template <int kBlock>
  __device__ void make(const Workspace& w) {
    const int lane = threadIdx.x % 32;
    const uint8_t *keys = w.heads, *left = w.heads + (of_keys ? 0 : 2 * kTileBytes);
#pragma unroll 2
    for (int step = 0; step < kHead / 16; ++step) {
      const int tile = step / 4 * kTileBytes, piece = step % 4 * 2;
      uint32_t a[4], b[kBlock + 1][4];
      load_fragment(a, left + tile + swizzled(16 * kBlock + lane % 16, piece + lane / 16));
#pragma unroll
      for (int j = 0; j <= kBlock; ++j)
        load_fragment(b[j], keys + tile + swizzled(16 * j + lane / 16 * 8 + lane % 8, piece + lane / 8 % 2));
#pragma unroll
      for (int j = 0; j <= kBlock; ++j) {
        multiply_halves(sums[2 * j], a, b[j][0], b[j][1]);
        multiply_halves(sums[2 * j + 1], a, b[j][2], b[j][3]);
      }
    }
  }
  // For one value head: the strictly lower part of its system, of which beta is in blocks on the diagonal only, or what
  // u_l adds to o_i.
  template <int kBlock>
  __device__ void apply_gates(const Workspace& w, int which, uint8_t* tile) const {
    const int lane = threadIdx.x % 32, row = 16 * kBlock + lane / 4, t = lane % 4, strict = of_keys ? 1 : 0;
    const float* cumulated = w.cumulated[which];
    const float now[2] = {cumulated[row], cumulated[row + 8]};
    const float beta[2] = {of_keys ? w.beta[which][row] : 1.0f, of_keys ? w.beta[which][row + 8] : 1.0f};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      uint32_t pairs[2] = {};
      const int column = 8 * j + 2 * t;
      if (j < 2 * kBlock + 2) {
        const float2 then = *reinterpret_cast<const float2*>(cumulated + column);
        const bool diagonal = j >= 2 * kBlock;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float factor = diagonal ? beta[i] : 1.0f;
          const float low = factor * power_of_two(now[i] - then.x) * sums[j][2 * i];
          const float high = factor * power_of_two(now[i] - then.y) * sums[j][2 * i + 1];
          pairs[i] = half_pair(!diagonal || column + strict <= row + 8 * i ? low : 0.0f,
                               !diagonal || column + 1 + strict <= row + 8 * i ? high : 0.0f);
        }
      }
      *reinterpret_cast<uint32_t*>(tile + swizzled(row, j) + t * 4) = pairs[0];
      *reinterpret_cast<uint32_t*>(tile + swizzled(row + 8, j) + t * 4) = pairs[1];
    }
  }
};

// Decays to and from the borders of `count` heads.
__device__ void write_decays(const Workspace& w, int first, int count, float* decays) {
  const int which = threadIdx.x / kChunk, row = threadIdx.x % kChunk;
  if (which >= count) return;
  const float* cumulated = w.cumulated[first + which];
  decays += which * kDecays * kChunk + row;
  decays[0] = power_of_two(cumulated[row]), decays[kChunk] = power_of_two(cumulated[kChunk - 1] - cumulated[row]);
}
static_assert(kThreads >= kTogether * kChunk && kThreads / 32 >= kMostRatio);

// Inverts one plus each of the systems of `count` value heads in place, times beta: two warps a system. With B the
// betas and M the system without them, (1 + B M)^-1 B has -(T2 B2) M21 (T1 B1) below (T1 B1) and beside (T2 B2).
__device__ void invert(Workspace& w, int first, int count) {
  const int warp = threadIdx.x / 32, half = warp % 2;
  uint8_t* tile = w.system(warp / 2);
  const bool own = warp / 2 < count;
  if (own) {
    invert_diagonal(tile, w.beta[first + warp / 2], 2 * half);
    Join<1> join;
    join.make(tile, 32 * half, 0);
    __syncwarp();
    join.put(tile, 32 * half, 0);
  }
  __syncthreads();
  Join<2> join;
  if (own) join.make(tile, 0, half);
  __syncthreads();
  if (own) join.put(tile, 0, half);
}

// Systems, and what they are made with, of the value heads of a unit.
__device__ void make_mixes(Workspace& w, const Products& products, int ratio, int64_t at, const ChunkTiles& tiles) {
  for (int first = 0; first < ratio; first += kTogether) {
    const int count = min(kTogether, ratio - first);
    if (threadIdx.x == 0) wait_for_stores();
    __syncthreads();
    with_block([&](auto block) {
      for (int i = 0; i < count; ++i)
        products.apply_gates<decltype(block)::value>(w, first + i, products.of_keys ? w.system(i) : w.read(count, i));
    });
    write_decays(w, first, count, tiles.decays + (at + first) * kDecays * kChunk);
    __syncthreads();
    invert(w, first, count);
    publish_to_copies();
    __syncthreads();
    for (int i = 0; threadIdx.x == 0 && i < count; ++i) {
      uint8_t* mixes = tiles.mixes + (at + first + i) * kMixTiles * kTileBytes;
      bulk_store(mixes, w.system(i), kTileBytes);
      bulk_store(mixes + kMixRead * kTileBytes, w.read(count, i), kTileBytes);
    }
  }
}

template <typename Q>
__global__ void __launch_bounds__(kThreads, kBlocks) prepare_kernel(DeltaView d, ChunkTiles tiles) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Workspace& w = *reinterpret_cast<Workspace*>(memory);
  await_earlier();
  const int64_t place = blockIdx.y;
  const int group = static_cast<int>(blockIdx.x), ratio = d.value_heads / d.key_heads, warp = threadIdx.x / 32;
  const Chunk chunk = chunk_at(d.rows, place);
  if (chunk.rows == 0) return;
  const int first = warp % 4 * kStripRows, which = warp / 4;  // k, q
  const int channel = (which == 0 ? d.key_heads + group : group) * kHead;
  Strip<Q> strip(d, chunk, first, channel);
  make_gates(d, chunk, w, group * ratio);
  strip.begin(d, chunk, channel);
  make_keys(d, strip, first, chunk.rows, which == 0 ? 1.0f : 0.08838834764831845f, w.heads + which * 2 * kTileBytes);
  publish_to_copies();
  __syncthreads();
  if (threadIdx.x == 0)
    bulk_store(tiles.heads + (place * d.key_heads + group) * kHeadTiles * kTileBytes, w.heads, kHeadTiles * kTileBytes);
  cumulate(w, ratio);
  Products products;
  with_block([&](auto block) { products.make<decltype(block)::value>(w); });
  make_mixes(w, products, ratio, place * d.value_heads + group * ratio, tiles);
  if (threadIdx.x == 0) wait_for_stores();
}

}  // namespace

void prepare_chunks(Context& context, const DeltaView& d, const ChunkTiles& tiles, int64_t places) {
  const int bytes = Workspace::bytes(d.value_heads / d.key_heads);
  with_quads(d, [&](auto quads) {
    const auto kernel = prepare_kernel<decltype(quads)>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
    start(context, kernel,
          {.grid = dim3(static_cast<unsigned>(d.key_heads), static_cast<unsigned>(places)),
           .block = kThreads,
           .shared = static_cast<size_t>(bytes)},
          d, tiles);
  });
}

}  // namespace braid::cuda
