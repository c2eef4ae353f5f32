// What the rows of a chunk need before the state is known, a block a chunk and key head: convolution, lengths, products
// of keys, gates, and for each value head the inverse of its triangular system (docs/delta_rule.md). Bounded by the
// instructions of the convolution's activation.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/arrival.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kStripRows = 8;
constexpr int kTogether = kHeadTiles;  // value heads whose systems are solved at once

struct Workspace {
  uint8_t heads[kHeadTiles * kTileBytes];  // k and q; later the systems
  uint8_t reads[kTogether * kTileBytes];
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
    for (int i = 0; i < 4; ++i) taps[i] = scaled(reinterpret_cast<const float4*>(d.conv)[c + i]);
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r) x[r] = Q::widen(raw[r]);
    if (row >= 0) return;
    const float* context = d.conv_state + int64_t{d.rows.slots[chunk.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
    for (int r = 0; r < kTaps - 1; ++r)
      if (row + r < 0) x[r] = *reinterpret_cast<const float4*>(context + (row + r + kTaps - 1) * d.channels);
  }
  // The next row, convolved and activated, divided by `kUnscaled`.
  __device__ float4 row(int r) {
    x[3] = Q::widen(raw[r + 3]);
    const auto at = [](const float4& tap, float a, float b, float c, float e) {
      return scaled_silu(fmaf(tap.w, e, fmaf(tap.z, c, fmaf(tap.y, b, tap.x * a))));
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
__device__ void make_keys(Strip<Q>& strip, int first, int rows, float length, uint8_t* tiles) {
  constexpr int kAbreast = 4;
#pragma unroll
  for (int from = 0; from < kStripRows; from += kAbreast) {
    float4 y[kAbreast];
    float squares[kAbreast];
#pragma unroll
    for (int r = 0; r < kAbreast; ++r) {
      y[r] = strip.row(from + r);
      squares[r] = y[r].x * y[r].x + y[r].y * y[r].y + y[r].z * y[r].z + y[r].w * y[r].w;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
#pragma unroll
      for (int r = 0; r < kAbreast; ++r) squares[r] += __shfl_xor_sync(kAllLanes, squares[r], offset);
#pragma unroll
    for (int r = 0; r < kAbreast; ++r) {
      const int row = first + from + r;
      const float factor = (row < rows ? -length : 0.0f) * rsqrtf(squares[r] + 1e-6f / (kUnscaled * kUnscaled));
      *reinterpret_cast<uint2*>(tiles + place_in_tiles(row)) = {half_pair(y[r].x * factor, y[r].y * factor),
                                                                half_pair(y[r].z * factor, y[r].w * factor)};
    }
  }
}

// Log decays and betas of a value head, a warp each; the decays are cumulated in order.
__device__ void make_gates(const DeltaView& d, const Chunk& chunk, Workspace& w, int first_head) {
  const int which = threadIdx.x / 32, lane = threadIdx.x % 32, head = first_head + which;
  if (which >= d.value_heads / d.key_heads) return;
  float* log_decay = w.cumulated[which];
#pragma unroll
  for (int r = lane; r < kChunk; r += 32) {
    const int64_t row = chunk.first + min(r, chunk.rows - 1);
    const float x = get(d.a, row * d.a.stride[0] + head) + d.dt_bias[head];
    const float rate = -expf(d.a_log[head]) * (x > 20.0f ? x : log1pf(expf(x)));
    const float beta = sigmoid(get(d.b, row * d.b.stride[0] + head)) * d.beta_scale;
    log_decay[r] = r < chunk.rows ? kLog2E * rate : 0.0f, w.beta[which][r] = r < chunk.rows ? beta : 0.0f;
  }
  __syncwarp();
  if (lane == 0) {
    float sum = 0;
#pragma unroll 16
    for (int r = 0; r < kChunk; ++r) log_decay[r] = sum += log_decay[r];
  }
  __syncwarp();
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
  // For one value head: the strictly lower part of its system, or what u_l adds to o_i.
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
          const float low = beta[i] * power_of_two(now[i] - then.x) * sums[j][2 * i];
          const float high = beta[i] * power_of_two(now[i] - then.y) * sums[j][2 * i + 1];
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
  const float since = power_of_two(cumulated[row]), beta = w.beta[first + which][row];
  decays += which * kDecays * kChunk + row;
  decays[0] = since, decays[kChunk] = power_of_two(cumulated[kChunk - 1] - cumulated[row]);
  decays[2 * kChunk] = since * beta, decays[3 * kChunk] = beta;
}
static_assert(kThreads >= kTogether * kChunk && kThreads / 32 >= kMostRatio);

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

// Two inverted blocks of 16 kBlocks rows on the diagonal, and the block of the system below the first one: rows 16 m ..
// 16 m + 15 of -(second inverse) (block) (first inverse), which takes the block's place once all rows are made.
template <int kBlocks>
struct Join {
  float out[2 * kBlocks][4] = {};

  __device__ void make(const uint8_t* tile, int first, int m) {
    const int lane = threadIdx.x % 32, below = first + 16 * kBlocks;
    const auto at = [&](int row, int column) { return tile + swizzled(row + lane % 16, column / 8 + lane / 16); };
    float part[2 * kBlocks][4] = {};
    uint32_t a[4], b[4];
#pragma unroll
    for (int k = 0; k < kBlocks; ++k) {
      if (k > m) break;
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
        multiply_halves(out[2 * n], a, b[0], b[1]), multiply_halves(out[2 * n + 1], a, b[2], b[3]);
      }
    }
  }
  __device__ void put(uint8_t* tile, int first, int m) const {
    const int lane = threadIdx.x % 32, below = first + 16 * kBlocks;
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(tile + swizzled(below + 16 * m + lane / 4 + 8 * half, first / 8 + n) +
                                     lane % 4 * 4) = half_pair(out[n][2 * half], out[n][2 * half + 1]);
  }
};

// Inverts one plus each of `count` systems in place, two warps a system.
__device__ void invert(uint8_t* tiles, int count) {
  const int warp = threadIdx.x / 32, half = warp % 2;
  uint8_t* tile = tiles + warp / 2 * kTileBytes;
  const bool own = warp / 2 < count;
  if (own) {
    invert_diagonal(tile, 2 * half);
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

template <typename Q>
__global__ void __launch_bounds__(kThreads, 3) prepare_kernel(DeltaView d, ChunkTiles tiles) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Workspace& w = *reinterpret_cast<Workspace*>(memory);
  const int64_t place = blockIdx.y;
  const int group = static_cast<int>(blockIdx.x), ratio = d.value_heads / d.key_heads, warp = threadIdx.x / 32;
  const Chunk chunk = chunk_at(d.rows, place);
  if (chunk.rows == 0) return;
  const int64_t at = place * d.value_heads + group * ratio;
  make_gates(d, chunk, w, group * ratio);
#pragma unroll 1
  for (int unit = warp; unit < 16; unit += kThreads / 32) {
    const int first = unit % 8 * kStripRows, which = unit / 8;  // k, q
    Strip<Q> strip;
    strip.load(d, chunk, first, (which == 0 ? d.key_heads + group : group) * kHead);
    make_keys(strip, first, chunk.rows, which == 0 ? 1.0f : 0.08838834764831845f, w.heads + which * 2 * kTileBytes);
  }
  publish_to_copies();
  __syncthreads();
  if (threadIdx.x == 0)
    bulk_store(tiles.heads + (place * d.key_heads + group) * kHeadTiles * kTileBytes, w.heads, sizeof(w.heads));
  Products products;
  with_block([&](auto block) { products.make<decltype(block)::value>(w); });
  for (int first = 0; first < ratio; first += kTogether) {
    const int count = min(kTogether, ratio - first);
    if (threadIdx.x == 0) wait_for_stores();
    __syncthreads();
    with_block([&](auto block) {
      for (int i = 0; i < count; ++i)
        products.apply_gates<decltype(block)::value>(w, first + i,
                                                     (products.of_keys ? w.heads : w.reads) + i * kTileBytes);
    });
    write_decays(w, first, count, tiles.decays + (at + first) * kDecays * kChunk);
    __syncthreads();
    invert(w.heads, count);
    publish_to_copies();
    __syncthreads();
    for (int i = 0; threadIdx.x == 0 && i < count; ++i) {
      uint8_t* mixes = tiles.mixes + (at + first + i) * kMixTiles * kTileBytes;
      bulk_store(mixes, w.heads + i * kTileBytes, kTileBytes);
      bulk_store(mixes + kMixRead * kTileBytes, w.reads + i * kTileBytes, kTileBytes);
    }
  }
  if (threadIdx.x == 0) wait_for_stores();
}

}  // namespace

void prepare_chunks(cudaStream_t stream, const DeltaView& d, const ChunkTiles& tiles, int64_t places) {
  constexpr int kBytes = static_cast<int>(sizeof(Workspace));
  const dim3 grid(static_cast<unsigned>(d.key_heads), static_cast<unsigned>(places));
  with_quads(d, [&](auto quads) {
    const auto kernel = prepare_kernel<decltype(quads)>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<grid, kThreads, kBytes, stream>>>(d, tiles);
  });
}

}  // namespace braid::cuda
