// The kernel of ring.h. Tiles are 16 weight rows, cut into chunks of 128 bytes a row. Each of eight warps has a ring
// of its own in shared memory, which the copy engine fills: it takes every eighth chunk, decodes it in registers to f16
// (exactly) and multiplies it with all rows of x, which are f16 numbers with a power of two for each row and chunk. A
// ninth warp adds up what the eight found of a tile, in order. Where tiles are too few or do not divide well among the
// multiprocessors, a cluster of blocks shares each tile. A sum's order depends on the weight's shape alone. Bounded by
// reading the weights; a block leaves room for one of the next launch, whose weights then come while this one ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/linear/coding.h"
#include "cuda/linear/ring.h"
#include "cuda/linear/ring_form.h"

namespace braid::cuda {

constexpr int kRingWarps = 8, kRingThreads = (kRingWarps + 1) * 32;
constexpr int kMostRing = 12, kMostCluster = 4, kPartBuffers = 2;

template <RingForm kForm, int kSets>
struct RingWork {
  using F = ChunkForm<kForm>;

  const Ring& s;
  uint8_t* ring;    // [warp][s.ring][16 rows of 128 bytes]
  uint8_t* groups;  // [warp][s.ring][16 rows of 16 scales]
  float* parts;     // [kPartBuffers][warps of the cluster][kSets][lane][4]
  uint8_t* x;       // [x_rows][row_pitch]
  float* x_scales;  // [x_rows][chunks]
  uint64_t *full, *parts_full, *parts_empty;
  int32_t first_tile, tile_count;  // of the cluster
  uint32_t rank, ranks;            // of this block in it, and of how many: two to the power of `rank_shift`
  int rank_shift;

  // Where a tile's rows are.
  struct Place {
    int source = 0, column = 0;  // of the output; the first half's row of the weight too
    int apart = kTileRows / 2;   // to the second half
  };
  __device__ Place place(int tile) const {
    Place p;
    while (p.source + 1 < s.source_count && tile >= s.sources[p.source + 1].first_tile) ++p.source;
    p.column = (tile - s.sources[p.source].first_tile) * (s.gated ? kTileRows / 2 : kTileRows);
    if (s.gated) p.apart = s.sources[p.source].rows / 2;
    return p;
  }

  // A chunk of a tile of the cluster. Its warps take all chunks of all tiles in turn.
  struct Unit {
    int tile, chunk;
  };
  // Those that work: a warp finds something of every second tile at least, so that it knows phases of barriers apart.
  __device__ int all_warps() const { return min(static_cast<int>(ranks) * kRingWarps, 2 * s.chunks); }
  __device__ Unit from(int chunk) const {
    Unit u{0, chunk};
    while (u.chunk >= s.chunks) u.chunk -= s.chunks, ++u.tile;
    return u;
  }
  __device__ Unit first() const {
    const int warp = static_cast<int>(rank * kRingWarps + threadIdx.x / 32);
    return warp < all_warps() ? from(warp) : Unit{INT32_MAX, 0};
  }
  __device__ Unit next(Unit u) const {
    const Unit later = from(u.chunk + all_warps());
    return {u.tile + later.tile, later.chunk};
  }
  __device__ bool exists(Unit u) const { return u.tile < tile_count; }

  // The chunks that a warp asks for, ahead of those that it multiplies.
  struct Ahead {
    Unit unit;
    Place place;
  };
  __device__ Ahead begin_asking() const {
    const Unit u = first();
    return {u, exists(u) ? place(first_tile + u.tile) : Place{}};
  }
  // All lanes: asks for the next one, into a place of the ring.
  __device__ void ask(int at, Ahead& ahead) const {
    if (threadIdx.x % 32 == 0) {
      const RingSource& of = s.sources[ahead.place.source];
      const int row = ahead.place.column, chunk = ahead.unit.chunk;
      barrier_expect(full + at, kChunkBytes + F::kGroupBytes);
      copy_tile(ring + at * kChunkBytes, of.map, chunk * kStreamMapBytes, row, full + at);
      if constexpr (F::kGrouped)
        copy_tile(groups + at * F::kGroupBytes, of.groups, chunk * kGroupMapBytes, row, full + at);
    }
    const int tile = ahead.unit.tile;
    ahead.unit = next(ahead.unit);
    if (ahead.unit.tile != tile && exists(ahead.unit)) ahead.place = place(first_tile + ahead.unit.tile);
  }
  __device__ void copy_tile(void* to, const CUtensorMap& map, int byte, int row, uint64_t* barrier) const {
#if __CUDA_ARCH__ >= 900
    constexpr uint64_t kReadOnce = 0x12F0000000000000;  // a cache policy: these lines are the first to go
    if (s.gated)
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
          "%4, %6, %7}], [%2], %5;" ::"r"(shared_address(to)),
          "l"(&map), "r"(shared_address(barrier)), "r"(byte), "r"(row), "l"(kReadOnce), "r"(0), "r"(0)
          : "memory");
    else
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
          "%4}], [%2], %5;" ::"r"(shared_address(to)),
          "l"(&map), "r"(shared_address(barrier)), "r"(byte), "r"(row), "l"(kReadOnce)
          : "memory");
#endif
  }
  // Scales of the two weight rows whose products a lane holds, asked for two chunks ahead.
  struct Scales {
    const float* rows[2] = {};
    float values[3][2] = {};  // of the present chunk and the two after it
    Unit unit{0, 0};          // that was asked for last
    int tile = -1;            // whose rows these are
  };
  __device__ void find_rows(Scales& scales) const {
    const Place p = place(first_tile + scales.unit.tile);
    const RingSource& of = s.sources[p.source];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(p.column + static_cast<int>(threadIdx.x % 32 / 4) + half * p.apart, of.rows - 1);
      scales.rows[half] = of.scales + int64_t{row >> of.block_shift} * of.scale_columns;
    }
    scales.tile = scales.unit.tile;
  }
  // The next chunk's; those before it move up.
  __device__ void fetch(Scales& scales) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) scales.values[i][half] = scales.values[i + 1][half];
    if (!exists(scales.unit)) return;
    if (scales.unit.tile != scales.tile) find_rows(scales);
#pragma unroll
    for (int half = 0; half < 2; ++half) scales.values[2][half] = __ldg(scales.rows[half]);
    scales.unit = next(scales.unit);
  }
  __device__ Scales begin_scales() const {
    Scales scales;
    scales.unit = first();
    for (int i = 0; i < 2; ++i) fetch(scales);
    return scales;
  }

  // All threads: rows of x as right operands.
  __device__ void prepare() const {
    constexpr int kTeams = kRingThreads / F::kTeam, kTogether = 3;  // loads under way
    const int rows = s.tokens, lane = threadIdx.x % F::kTeam;
    int row = 0, chunk = threadIdx.x / F::kTeam;
    const auto settle = [&] {
      while (chunk >= s.chunks) chunk -= s.chunks, ++row;
    };
    settle();
    while (row < rows) {
      float values[kTogether][16];
      int at_row[kTogether], at_chunk[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        at_row[i] = row, at_chunk[i] = chunk;
        if (row < rows) load_16(values[i], s.x, row * s.x.stride[0] + chunk * F::kColumns + lane * 16);
        chunk += kTeams, settle();
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (at_row[i] < rows)
          F::put_x(x + at_row[i] * F::row_pitch(s.chunks) + at_chunk[i] * F::kXBytes,
                   x_scales + at_row[i] * s.chunks + at_chunk[i], values[i]);
    }
  }

  // A warp that multiplies: all its chunks.
  __device__ void multiply(Ahead ahead, Scales scales) const {
    const Right right = find_x();
    Unit u = first();
    for (int slot = 0, parity = 0; exists(u);) {
      const Unit begin = u;
      float sums[kSets][4] = {};
      do {
        const int at = threadIdx.x / 32 * s.ring + slot;
        fetch(scales);
        barrier_wait(full + at, parity);
        typename F::Held held;
        F::load(held, ring + at * kChunkBytes, groups + at * F::kGroupBytes);
        __syncwarp();
        if (exists(ahead.unit)) ask(at, ahead);
        multiply_chunk(sums, held, scales.values[0], u.chunk, right);
        if (++slot == s.ring) slot = 0, parity ^= 1;
        u = next(u);
      } while (u.tile == begin.tile);
      send(begin, sums);
    }
  }
  // Where a lane finds its columns of x and their scales.
  struct Right {
    const uint8_t* rows[kSets];
    const float* scales[kSets][2];
  };
  __device__ Right find_x() const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto row_of = [&](int column) { return min(column, s.tokens - 1); };
    Right right;
#pragma unroll
    for (int j = 0; j < kSets; ++j) {
      right.rows[j] = x + row_of(8 * j + g) * F::row_pitch(s.chunks) + t * 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) right.scales[j][i] = x_scales + row_of(8 * j + 2 * t + i) * s.chunks;
    }
    return right;
  }
  __device__ static void multiply_chunk(float (&sums)[kSets][4], const typename F::Held& held, const float (&scales)[2],
                                        int chunk, const Right& right) {
    float fresh[kSets][4] = {};  // scaled before they are added
#pragma unroll
    for (int q = 0; q < F::kPieces; ++q) {
      uint32_t a[2][4];
      F::operands(a, held, q);
#pragma unroll
      for (int j = 0; j < kSets; ++j) {
        const uint4 b = *reinterpret_cast<const uint4*>(right.rows[j] + chunk * F::kXBytes + q * 64);
        multiply_16<false>(fresh[j], a[0], b.x, b.y);
        multiply_16<false>(fresh[j], a[1], b.z, b.w);
      }
    }
#pragma unroll
    for (int j = 0; j < kSets; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[j][i] += scales[i / 2] * right.scales[j][i % 2][chunk] * fresh[j][i];
  }

  // Hands sums to the finishing warp.
  __device__ void send(Unit begin, const float (&sums)[kSets][4]) const {
    const uint32_t to = begin.tile & (ranks - 1);
    const int use = begin.tile >> rank_shift, buffer = use % kPartBuffers;
    barrier_wait(parts_empty + to * kPartBuffers + buffer, (use / kPartBuffers + 1) % 2);
    float* at = parts + (buffer * all_warps() + begin.chunk) * kSets * 128 + threadIdx.x % 32 * 4;
#pragma unroll
    for (int j = 0; j < kSets; ++j) {
      if (ranks > 1)
        store_four_in(address_in(to, at + j * 128), sums[j]);
      else
        *reinterpret_cast<float4*>(at + j * 128) = {sums[j][0], sums[j][1], sums[j][2], sums[j][3]};
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) report(to, parts_full + buffer);
  }
  __device__ void report(uint32_t to, uint64_t* barrier) const {
    if (ranks > 1)
      arrive_in(address_in(to, barrier));
    else
      barrier_arrive(barrier);
  }
  // Warps that find something of a tile.
  __device__ int finders() const { return min(s.chunks, all_warps()); }

  // The finishing warp: adds up the tiles that are its block's.
  __device__ void finish() const {
    const int lane = threadIdx.x % 32;
    for (int tile = rank, use = 0; tile < tile_count; tile += ranks, ++use) {
      const int buffer = use % kPartBuffers;
      const Place p = place(first_tile + tile);
      barrier_wait(parts_full + buffer, use / kPartBuffers % 2);
      const float* from = parts + buffer * all_warps() * kSets * 128 + lane * 4;
      float sums[kSets][4] = {};
#pragma unroll 8
      for (int i = 0; i < finders(); ++i)
#pragma unroll
        for (int j = 0; j < kSets; ++j) {
          const float4 v = *reinterpret_cast<const float4*>(from + (i * kSets + j) * 128);
          sums[j][0] += v.x, sums[j][1] += v.y, sums[j][2] += v.z, sums[j][3] += v.w;
        }
      __syncwarp();
      if (lane < static_cast<int>(ranks)) report(lane, parts_empty + rank * kPartBuffers + buffer);
      store(p, sums);
    }
  }
  // A row of sums is a weight row, a column a row of x.
  __device__ void store(const Place& p, const float (&sums)[kSets][4]) const {
    const View& out = s.sources[p.source].out;
    const int lane = threadIdx.x % 32, outputs = s.sources[p.source].rows / (s.gated ? 2 : 1);
#pragma unroll
    for (int j = 0; j < kSets; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * j + lane % 4 * 2 + i % 2, row = p.column + lane / 4 + i / 2 * 8;
        if ((s.gated && i >= 2) || token >= s.tokens || row >= outputs) continue;
        put(out, token * out.stride[0] + row, s.gated ? silu(sums[j][i]) * sums[j][(i + 2) % 4] : sums[j][i]);
      }
  }
};

// Bytes of dynamic shared memory, as the kernel lays it out.
template <RingForm kForm, int kSets>
int64_t ring_bytes(const Ring& s, int cluster) {
  using F = ChunkForm<kForm>;
  const int64_t ring = int64_t{kRingWarps} * s.ring * (kChunkBytes + F::kGroupBytes);
  const int64_t parts = int64_t{kPartBuffers} * cluster * kRingWarps * kSets * 512;
  return 1024 + ring + parts + s.x_rows * (int64_t{F::row_pitch(s.chunks)} + 4 * int64_t{s.chunks});
}

template <RingForm kForm, int kSets>
__global__ void __launch_bounds__(kRingThreads, 2) ring_kernel(const __grid_constant__ Ring s) {
  using F = ChunkForm<kForm>;
  extern __shared__ uint8_t memory[];
  __shared__ uint64_t full[kRingWarps * kMostRing], parts_full[kPartBuffers];
  __shared__ uint64_t parts_empty[kMostCluster * kPartBuffers];
  const uint32_t ranks = cluster_size(), clusters = gridDim.x / ranks;
  const auto first_tile = [&](uint32_t i) {
    return static_cast<int32_t>(static_cast<uint32_t>(s.tiles) * i / clusters);
  };
  uint8_t* ring = memory + (1024 - shared_address(memory) % 1024) % 1024;
  uint8_t* groups = ring + kRingWarps * s.ring * kChunkBytes;
  auto* parts = reinterpret_cast<float*>(groups + kRingWarps * s.ring * F::kGroupBytes);
  auto* x = reinterpret_cast<uint8_t*>(parts + kPartBuffers * ranks * kRingWarps * kSets * 128);
  using Work = RingWork<kForm, kSets>;
  const Work streaming{s,
                       ring,
                       groups,
                       parts,
                       x,
                       reinterpret_cast<float*>(x + s.x_rows * F::row_pitch(s.chunks)),
                       full,
                       parts_full,
                       parts_empty,
                       first_tile(blockIdx.x / ranks),
                       first_tile(blockIdx.x / ranks + 1) - first_tile(blockIdx.x / ranks),
                       cluster_rank(),
                       ranks,
                       static_cast<int>(31 - __clz(ranks))};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool multiplies = warp < kRingWarps;
  if (multiplies && lane < s.ring) barrier_init(full + warp * s.ring + lane, 1);
  if (!multiplies && lane < kPartBuffers) barrier_init(parts_full + lane, streaming.finders());
  if (!multiplies && lane < kMostCluster * kPartBuffers) barrier_init(parts_empty + lane, 1);
  barriers_made();
  __syncwarp();
  if (ranks > 1) cluster_arrive();
  allow_next();
  auto ahead = streaming.begin_asking();
  for (int i = 0; multiplies && i < s.ring && streaming.exists(ahead.unit); ++i)
    streaming.ask(warp * s.ring + i, ahead);
  const auto scales = multiplies ? streaming.begin_scales() : typename Work::Scales{};
  await();
  streaming.prepare();
  __syncthreads();
  if (ranks > 1) cluster_wait();
  multiplies ? streaming.multiply(ahead, scales) : streaming.finish();
  if (ranks > 1) cluster_sync();
}

// Blocks that share a tile, and how many such clusters there are, at most one block a multiprocessor: as few blocks a
// cluster as leave no more than a small part of the multiprocessors idle in the last round of tiles.
struct RingGrid {
  int cluster = 1, clusters = 1;
};
RingGrid ring_grid(int tiles, int multiprocessors);

// Fills in `ring` where it is 0, and `x_rows`.
template <RingForm kForm, int kSets>
void launch_ring(Context& context, Ring& s) {
  constexpr int64_t kHalf = int64_t{112} << 10, kWhole = int64_t{224} << 10;  // of a multiprocessor's shared memory
  constexpr int64_t kUsualRing = 8, kFewestRing = 4;
  using F = ChunkForm<kForm>;
  const RingGrid grid = ring_grid(s.tiles, context.multiprocessors());
  const int64_t most_tiles = (s.tiles + grid.clusters - 1) / grid.clusters;
  s.x_rows = s.tokens;
  const int64_t warps = int64_t{grid.cluster} * kRingWarps, needed = (most_tiles * s.chunks + warps - 1) / warps;
  s.ring = 0;
  const int64_t held = ring_bytes<kForm, kSets>(s, grid.cluster);
  const int64_t each = int64_t{kRingWarps} * (kChunkBytes + F::kGroupBytes);
  const int64_t fewest = std::min(needed, kFewestRing);
  const int64_t memory = held + fewest * each <= kHalf ? kHalf : kWhole;
  s.ring = static_cast<int32_t>(std::clamp<int64_t>((memory - held) / each, 1, std::min(needed, kUsualRing)));
  const int64_t bytes = ring_bytes<kForm, kSets>(s, grid.cluster);
  auto* kernel = ring_kernel<kForm, kSets>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "shared memory");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "shared memory");
  start(context, kernel,
        {.grid = static_cast<unsigned>(grid.clusters * grid.cluster),
         .block = kRingThreads,
         .shared = static_cast<size_t>(bytes),
         .cluster = static_cast<unsigned>(grid.cluster)},
        s);
}

}  // namespace braid::cuda
