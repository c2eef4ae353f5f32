// The kernel of ring.h. Tiles are 16 weight rows, cut into chunks of 128 bytes a row. A block's warps share the chunks
// of its tiles evenly: each takes a run of them, copies them into a ring of its own in shared memory, ahead of what it
// decodes in registers and multiplies with all rows of x. Of tiles that several warps have chunks of, each leaves its
// sum in shared memory, and these are added up at the end, in order. The two blocks of a pair share tiles, each has a
// half of the columns. Bounded by reading the weights. A block fills its multiprocessor's memory, so that one of the
// next launch begins, and asks for its weights, when this one ends: while others still work, or what lies between the
// two.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/common/thread_copies.h"
#include "cuda/linear/coding.h"
#include "cuda/linear/ring.h"
#include "cuda/linear/ring_form.h"

namespace braid::cuda {

// Starts the kernel for a row that it normalises itself.
void launch_normed_ring(Context& context, const Ring& s, RingForm form, const Extents& extents);

constexpr int kMostRing = 8;  // chunks of a warp in shared memory

// What a lane keeps of a row's choices: the one of its own number, and what its part of x is multiplied by.
struct RingChoice {
  int matrix = 0;
  float weight = 1;

  __device__ void ask(const Ring& s) {
    const int lane = threadIdx.x % 32;
    if (lane < s.choices) matrix = __ldcg(s.chosen + lane);
    if (s.weights == nullptr) return;
    if (lane < s.choices) weight = __ldcg(s.weights + lane);
    if (lane == s.choices && s.shared_gate != nullptr) weight = sigmoid(__ldcg(s.shared_gate));
  }
  // All lanes; of the source behind all choices it is its only one.
  __device__ int matrix_of(int choice) const { return __shfl_sync(kAllLanes, matrix, choice); }
  __device__ float weight_of(int choice) const { return __shfl_sync(kAllLanes, weight, choice); }
};

// Where a tile's rows are.
struct RingPlace {
  int source = 0, column = 0;  // of the output; the first half's row of the weight too
  int apart = kTileRows / 2;   // to the second half
  int matrix = 0;              // of the source
  int first_output = 0;        // of the source, or of the choice
};
// All lanes.
template <RingInput kInput>
__device__ RingPlace ring_place(const Ring& s, int tile, const RingChoice& choice) {
  RingPlace p;
  if constexpr (kInput == RingInput::Slots) {
    const int of = min(tile / s.choice_tiles, s.choices), outputs = s.sources[0].rows / (s.gated ? 2 : 1);
    p.source = of == s.choices, p.matrix = choice.matrix_of(of), p.first_output = of * outputs;
    tile -= of * s.choice_tiles;
  } else {
    while (p.source + 1 < s.source_count && tile >= s.sources[p.source + 1].first_tile) ++p.source;
    tile -= s.sources[p.source].first_tile;
  }
  p.column = tile * (s.gated ? kTileRows / 2 : kTileRows);
  if (s.gated) p.apart = s.sources[p.source].rows / 2;
  return p;
}

// A chunk of a tile of this block, counted from its first ones, and how many the warp has left.
struct RingUnit {
  int32_t tile, chunk, left;
};
// What the blocks of a cluster work on: tiles, and each block some chunks of each of them.
struct RingShare {
  int32_t first_tile, tiles, first_chunk, chunks;

  // Of the warps of a block, those that have units: every one of these has.
  template <int kWarps>
  __device__ int warps() const {
    return min(kWarps, tiles * chunks);
  }
  template <int kWarps>
  __device__ int first_unit(int warp) const {
    return tiles * chunks * min(warp, warps<kWarps>()) / warps<kWarps>();
  }
  template <int kWarps>
  __device__ RingUnit begin(int warp) const {
    const int from = first_unit<kWarps>(warp);
    return {from / chunks, from % chunks, first_unit<kWarps>(warp + 1) - from};
  }
  // The first and the last warp that have chunks of a tile.
  template <int kWarps>
  __device__ short2 finders(int tile) const {
    const int count = warps<kWarps>(), units = tiles * chunks;
    return {static_cast<short>((count * (tile * chunks + 1) - 1) / units),
            static_cast<short>((count * (tile + 1) * chunks - 1) / units)};
  }
  __device__ void step(RingUnit& u) const {
    --u.left;
    if (++u.chunk == chunks) u.chunk = 0, ++u.tile;
  }
};
__device__ inline RingShare ring_share(const Ring& s, uint32_t rank, uint32_t ranks) {
  const auto part = [](int count, uint32_t i, uint32_t of) {
    return static_cast<int32_t>(static_cast<uint32_t>(count) * i / of);
  };
  const uint32_t cluster = blockIdx.x / ranks, clusters = gridDim.x / ranks;
  const int32_t tile = part(s.tiles, cluster, clusters), chunk = part(s.chunks, rank, ranks);
  return {tile, part(s.tiles, cluster + 1, clusters) - tile, chunk, part(s.chunks, rank + 1, ranks) - chunk};
}

// What a warp asks for, ahead of what it multiplies: each lane copies 16 bytes of four rows.
template <RingForm kForm, RingInput kInput>
struct RingCopies {
  using F = ChunkForm<kForm>;
  static constexpr bool kJoined = kInput == RingInput::Joined;
  static constexpr bool kScales = F::kBlocks || (kJoined && F::kRows);  // a scale for each chunk of a row
  const Ring& s;
  const RingShare& share;
  const RingChoice& choice;
  uint8_t* codes;   // [s.ring][16 rows of 128 bytes], of this warp
  uint8_t* groups;  // [s.ring][16 rows of 16 scales]
  float2* scales;   // [s.ring], of the rows of both halves
  uint64_t* full;   // [s.ring]

  RingUnit unit;  // that is asked for next
  RingPlace place;
  // Of the tile, where this lane reads.
  const uint8_t *rows[4], *group_row;
  const float* scale_row;

  // Row `i` of the tile in its matrix.
  __device__ int64_t row(int i, const RingSource& of) const {
    return min(place.column + i % 8 + i / 8 * place.apart, of.rows - 1);
  }
  __device__ void find() {
    place = ring_place<kInput>(s, share.first_tile + unit.tile, choice);
    int first_chunk = share.first_chunk;
    if constexpr (kJoined) {
      const int of = min((first_chunk + unit.chunk) / s.choice_chunks, s.choices);
      place.source = of == s.choices, place.matrix = choice.matrix_of(of);
      first_chunk -= of * s.choice_chunks;
    }
    const RingSource& of = s.sources[place.source];
    const int lane = threadIdx.x % 32;
    const uint8_t* codes_from = of.codes + place.matrix * of.matrix_bytes;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      rows[i] = codes_from + row(4 * i + lane / 8, of) * of.pitch + first_chunk * 128 + lane % 8 * 16;
    if constexpr (F::kGrouped)
      group_row =
          of.groups + place.matrix * (of.matrix_bytes / 8) + row(lane % 16, of) * (of.pitch / 8) + first_chunk * 16;
    if constexpr (kScales)
      scale_row = of.scales + place.matrix * of.matrix_scales +
                  (row(lane % 2 * 8, of) >> of.block_shift) * of.scale_columns + (F::kBlocks ? first_chunk : 0);
  }
  __device__ void step() {
    const int tile = unit.tile;
    share.step(unit);
    if (unit.left == 0) return;
    if (unit.tile != tile || (kJoined && (share.first_chunk + unit.chunk) % s.choice_chunks == 0)) find();
  }
  // All lanes: asks for a unit, into a place of the ring, and goes on to the next one.
  __device__ void ask(int at) {
    const int lane = threadIdx.x % 32;
    uint8_t* to = codes + at * kChunkBytes + lane / 8 * 128;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      copy_async<16>(to + i * 512 + ((lane % 8 ^ (4 * i + lane / 8) % 8) << 4), rows[i] + unit.chunk * 128);
    if (F::kGrouped && lane < 16) copy_async<16>(groups + at * F::kGroupBytes + lane * 16, group_row + unit.chunk * 16);
    if (kScales && lane < 2)
      copy_async<4>(reinterpret_cast<float*>(scales + at) + lane, scale_row + (F::kBlocks ? unit.chunk : 0));
    arrive_after_copies(full + at);
    step();
  }
};

// A block's x and sums, and its warps' products.
template <RingForm kForm, int kSets, int kWarps, RingInput kInput>
struct RingWork {
  using F = ChunkForm<kForm>;
  using Copies = RingCopies<kForm, kInput>;
  static constexpr bool kRowScales = F::kRows && !Copies::kScales;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kPart = kSets * 128;  // numbers of a tile's sum
  static constexpr int kEarly = F::kPieces < 4 ? F::kPieces : 4;
  using Sums = float[kSets][4];

  const Ring& s;
  const RingShare& share;
  const RingChoice& choice;
  float* parts;          // [ranks][s.parts][kSets][lane][4]
  uint8_t* x;            // [s.tokens][row_pitch]
  float* x_scales;       // [s.tokens][s.most_chunks]
  uint64_t* arrived;     // sums from other blocks
  short2* finders;       // [ranks][tiles of this block]
  uint32_t rank, ranks;  // of this block in its cluster, and of how many

  // A chunk of a row of x, which a team of lanes prepares.
  struct Job {
    int row, chunk;
  };
  __device__ Job first_job() const { return settled({0, static_cast<int>(threadIdx.x) / F::kTeam}); }
  __device__ Job settled(Job job) const {
    while (job.chunk >= share.chunks) job.chunk -= share.chunks, ++job.row;
    return job;
  }
  // All threads: rows of x as right operands. Some lanes of a warp may find no job left.
  template <bool kBf16>
  __device__ void prepare(Job job) const {
    constexpr int kTeams = kThreads / F::kTeam, kTogether = kBf16 ? 8 : 4;  // loads under way
    const int lane = threadIdx.x % F::kTeam, warps_first = threadIdx.x / 32 * 32 / F::kTeam;
    for (int first = warps_first; first < s.tokens * share.chunks; first += kTogether * kTeams) {
      EightOfX<kBf16> loads[kTogether];
      Job jobs[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        jobs[i] = job;
        if (job.row < s.tokens)
          loads[i].load(s.x, job.row * s.x.stride[0] + (share.first_chunk + job.chunk) * F::kColumns + lane * 8);
        job = settled({job.row, job.chunk + kTeams});
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        float values[8];
        loads[i].get(values);
        if constexpr (kInput == RingInput::Joined) {
          const float by = choice.weight_of(min((share.first_chunk + jobs[i].chunk) / s.choice_chunks, s.choices));
#pragma unroll
          for (float& value : values) value *= by;
        }
        const auto right = F::right(values);
        if (jobs[i].row >= s.tokens) continue;
        uint8_t* to = x + jobs[i].row * F::row_pitch(s.most_chunks) + jobs[i].chunk * F::kXBytes;
        *reinterpret_cast<uint4*>(to + F::place_of_x(lane)) = right.words;
        if (F::kScaled && lane == 0) x_scales[jobs[i].row * s.most_chunks + jobs[i].chunk] = right.scale;
      }
    }
  }

  // The same of the one row that threads have parts of.
  template <int kSteps>
  __device__ void prepare(const NormedPart<kThreads, kSteps>& row, float factor) const {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int column = row.column(step), chunk = column / F::kColumns - share.first_chunk;
      const int lane = column % F::kColumns / 8;
      const auto right = F::right(row.normed(step, factor).values);  // in teams of lanes whose columns are a chunk
      if (chunk < 0 || chunk >= share.chunks) continue;
      *reinterpret_cast<uint4*>(x + chunk * F::kXBytes + F::place_of_x(lane)) = right.words;
      if (F::kScaled && lane == 0) x_scales[chunk] = right.scale;
    }
  }

  // Where a lane finds its columns of x and their scales.
  struct Right {
    const uint8_t* rows[kSets];
    const float* scales[kSets][2];

    __device__ uint4 piece(int set, int chunk, int q) const {
      return *reinterpret_cast<const uint4*>(rows[set] + chunk * F::kXBytes + q * 64);
    }
  };
  __device__ Right find_x() const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto row_of = [&](int column) { return min(column, s.tokens - 1); };
    Right right;
#pragma unroll
    for (int j = 0; j < kSets; ++j) {
      right.rows[j] = x + row_of(8 * j + g) * F::row_pitch(s.most_chunks) + t * 16;
#pragma unroll
      for (int i = 0; i < 2; ++i) right.scales[j][i] = x_scales + row_of(8 * j + 2 * t + i) * s.most_chunks;
    }
    return right;
  }
  // What is read of a chunk of x before the weights are there.
  struct Early {
    uint4 pieces[kEarly][kSets];
    float scales[kSets][2];

    __device__ Early(const Right& right, int chunk) {
#pragma unroll
      for (int j = 0; j < kSets; ++j) {
#pragma unroll
        for (int q = 0; q < kEarly; ++q) pieces[q][j] = right.piece(j, chunk, q);
#pragma unroll
        for (int i = 0; i < 2; ++i) scales[j][i] = F::kScaled ? right.scales[j][i][chunk] : 1.0f;
      }
    }
  };

  // A warp's products.
  __device__ void multiply(Copies& copies, int warp) const {
    const Right right = find_x();
    RingUnit u = share.begin<kWarps>(warp);
    int slot = 0, parity = 0;
    while (u.left > 0) {
      const bool begins = u.chunk == 0;
      float row_scales[2] = {1, 1};  // used long after they are asked for
      if constexpr (kRowScales) find_scales(row_scales, u.tile);
      Sums sums = {};
      for (bool more = true; more; share.step(u)) {
        const Early early(right, u.chunk);
        barrier_wait(copies.full + slot, parity);
        typename F::Held held;
        F::load(held, copies.codes + slot * kChunkBytes, copies.groups + slot * F::kGroupBytes);
        const float2 by = Copies::kScales ? copies.scales[slot] : float2{1, 1};
        __syncwarp();
        if (copies.unit.left > 0) copies.ask(slot);
        if (++slot == s.ring) slot = 0, parity ^= 1;
        add_chunk(sums, held, by, u.chunk, right, early);
        more = u.left > 1 && u.chunk + 1 < share.chunks;
      }
      if constexpr (kRowScales) scale(sums, row_scales);
      const bool ends = u.chunk == 0;
      const int tile = ends ? u.tile - 1 : u.tile;
      if (begins && ends && ranks == 1)
        store(sums, tile);
      else
        leave(sums, tile, warp);
    }
  }
  // Of the two weight rows whose products a lane holds.
  __device__ void find_scales(float (&scales)[2], int tile) const {
    const RingPlace p = ring_place<kInput>(s, share.first_tile + tile, choice);
    const RingSource& of = s.sources[p.source];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(p.column + static_cast<int>(threadIdx.x % 32 / 4) + half * p.apart, of.rows - 1);
      scales[half] = __ldg(of.scales + p.matrix * of.matrix_scales + int64_t{row >> of.block_shift} * of.scale_columns);
    }
  }
  __device__ static void scale(Sums& sums, const float (&scales)[2]) {
#pragma unroll
    for (int j = 0; j < kSets; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[j][i] *= scales[i / 2];
  }
  __device__ static void add_chunk(Sums& sums, const typename F::Held& held, float2 by, int chunk, const Right& right,
                                   const Early& early) {
    float fresh[kSets][2][4] = {};  // two chains of products, scaled before they are added
#pragma unroll
    for (int q = 0; q < F::kPieces; ++q) {
      uint32_t a[2][4];
      F::operands(a, held, q);
#pragma unroll
      for (int j = 0; j < kSets; ++j) {
        const uint4 b = q < kEarly ? early.pieces[q % kEarly][j] : right.piece(j, chunk, q);
        multiply_16<F::kBf16>(fresh[j][0], a[0], b.x, b.y);
        multiply_16<F::kBf16>(fresh[j][1], a[1], b.z, b.w);
      }
    }
#pragma unroll
    for (int j = 0; j < kSets; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float found = (fresh[j][0][i] + fresh[j][1][i]) * early.scales[j][i % 2];
        sums[j][i] += Copies::kScales ? found * (i < 2 ? by.x : by.y) : found;
      }
  }

  // Tiles belong to the blocks of a cluster in turn. What a warp found of a tile that is not its own alone lies there.
  __device__ float* part(uint32_t of, int warp, int tile) const {
    return parts + (of * s.parts + tile / static_cast<int>(ranks) + warp) * kPart;
  }
  __device__ void leave(const Sums& sums, int tile, int warp) const {
    auto* to = reinterpret_cast<float4*>(part(rank, warp, tile)) + threadIdx.x % 32;
    const uint32_t owner = static_cast<uint32_t>(tile) % ranks;
#pragma unroll
    for (int j = 0; j < kSets; ++j) {
      if (owner == rank)
        to[j * 32] = {sums[j][0], sums[j][1], sums[j][2], sums[j][3]};
      else
        send_four(address_in(owner, to + j * 32), sums[j], address_in(owner, arrived));
    }
  }
  // Which warps of a block of the cluster have chunks of a tile that is this block's.
  __device__ short2& finders_of(uint32_t of, uint32_t tile) const { return finders[of * s.parts + tile / ranks]; }
  // All threads.
  __device__ void find_finders() const {
    for (uint32_t r = 0; r < ranks; ++r) {
      const RingShare of = ring_share(s, r, ranks);
      for (uint32_t tile = rank + threadIdx.x * ranks; tile < of.tiles; tile += kThreads * ranks)
        finders_of(r, tile) = of.template finders<kWarps>(tile);
    }
  }
  // One warp, behind a barrier: what will come from other blocks.
  __device__ void expect() const {
    int count = 0;
    for (uint32_t r = 0; r < ranks; ++r)
      for (uint32_t tile = rank + threadIdx.x * ranks; r != rank && tile < share.tiles; tile += 32 * ranks)
        count += finders_of(r, tile).y - finders_of(r, tile).x + 1;
    count = sum_of_warp(count);
    if (threadIdx.x == 0) barrier_expect(arrived, count * kPart * 4);
  }
  // All threads: adds up what warps of the cluster left of the tiles that are this block's.
  __device__ void finish(int warp) const {
    __syncthreads();
    if (ranks > 1) barrier_wait(arrived, 0);
    const int step = static_cast<int>(ranks);
    for (int tile = rank + warp * step; tile < share.tiles; tile += kWarps * step) {
      Sums sums = {};
      bool left = ranks > 1;
      for (uint32_t r = 0; r < ranks; ++r) {
        const short2 found = finders_of(r, tile);
        left = left || found.x < found.y;
        const auto* from = reinterpret_cast<const float4*>(part(r, found.x, tile)) + threadIdx.x % 32;
#pragma unroll 4
        for (int i = 0; i <= found.y - found.x && left; ++i)
#pragma unroll
          for (int j = 0; j < kSets; ++j) {
            const float4 v = from[(i * kSets + j) * 32];
            sums[j][0] += v.x, sums[j][1] += v.y, sums[j][2] += v.z, sums[j][3] += v.w;
          }
      }
      if (left) store(sums, tile);
    }
  }
  // A row of sums is a weight row, a column a row of x.
  __device__ void store(const Sums& sums, int tile) const {
    const RingPlace p = ring_place<kInput>(s, share.first_tile + tile, choice);
    const View& out = s.sources[p.source].out;
    const int lane = threadIdx.x % 32, outputs = s.sources[p.source].rows / (s.gated ? 2 : 1);
#pragma unroll
    for (int j = 0; j < kSets; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * j + lane % 4 * 2 + i % 2, row = p.column + lane / 4 + i / 2 * 8;
        if ((s.gated && i >= 2) || token >= s.tokens || row >= outputs) continue;
        const float value = s.gated ? silu(sums[j][i]) * sums[j][(i + 2) % 4] : sums[j][i];
        put(out, token * out.stride[0] + p.first_output + row, value);
        if (s.stream != nullptr) atomicAdd(s.stream + row, value);  // which nobody waits for
      }
  }
};

// Rows that are normalised here have at most so many times eight numbers a thread.
constexpr int kNormedSteps = 3;

template <RingForm kForm, int kSets, int kWarps, RingInput kInput>
__global__ void __launch_bounds__(kWarps * 32, 1) ring_kernel(const __grid_constant__ Ring s) {
  using Work = RingWork<kForm, kSets, kWarps, kInput>;
  using Copies = Work::Copies;
  using F = ChunkForm<kForm>;
  constexpr bool kNormed = kInput == RingInput::Normed;
  extern __shared__ uint8_t memory[];
  __shared__ uint64_t full[kWarps * kMostRing], arrived;
  __shared__ float2 sums[kNormed ? kWarps : 1];
  __shared__ bool last_reader;
  __shared__ float2 block_scales[Copies::kScales ? kWarps * kMostRing : 1];
  const uint32_t ranks = cluster_size(), rank = cluster_rank();
  // The same for all lanes, which the compiler sees from the exchange.
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / 32, 0), first = warp * s.ring;
  const int lane = threadIdx.x % 32;
  const RingShare share = ring_share(s, rank, ranks);
  uint8_t* codes = memory + (1024 - shared_address(memory) % 1024) % 1024;
  uint8_t* groups = codes + kWarps * s.ring * kChunkBytes;
  auto* parts = reinterpret_cast<float*>(groups + kWarps * s.ring * F::kGroupBytes);
  auto* x = reinterpret_cast<uint8_t*>(parts + ranks * s.parts * kSets * 128);
  auto* x_scales = reinterpret_cast<float*>(x + s.tokens * F::row_pitch(s.most_chunks));
  RingChoice choice;
  Copies copies{s,
                share,
                choice,
                codes + first * kChunkBytes,
                groups + first * F::kGroupBytes,
                block_scales + (Copies::kScales ? first : 0),
                full + first,
                share.begin<kWarps>(warp)};
  if (lane < s.ring) barrier_init(copies.full + lane, 32);
  if (threadIdx.x == 0) barrier_init(&arrived, 1);
  barriers_made();
  __syncwarp();
  const Work work{s,    share,    choice,   parts,
                  x,    x_scales, &arrived, reinterpret_cast<short2*>(x_scales + s.tokens * s.most_chunks),
                  rank, ranks};
  const auto job = work.first_job();
  const auto prepare = [&] { s.x.bf16 ? work.template prepare<true>(job) : work.template prepare<false>(job); };
  const auto ask = [&](int from, int to) {
    for (int i = from; i < to && copies.unit.left > 0; ++i) copies.ask(i);
  };
  NormedPart<kWarps * 32, kNormed ? kNormedSteps : 1> row;
  float factor = 1;
  if constexpr (kInput == RingInput::Slots) {
    work.find_finders();
    await_then_allow();
    choice.ask(s);
    prepare();  // before weights stand in its way
    copies.find();
    ask(0, s.ring);
    if (ranks > 1) cluster_arrive_relaxed();
  } else {
    allow_next();
    if constexpr (kInput == RingInput::Joined) choice.ask(s);  // which an earlier launch than the last one made
    copies.find();
    ask(0, s.early);
    if (ranks > 1) cluster_arrive_relaxed();
    work.find_finders();
    if constexpr (kNormed) row.ask(s.norm);
    await();
    if constexpr (kNormed) {
      factor = row.add_up(s.norm, sums);
      work.prepare(row, factor);
    } else {
      prepare();
    }
    ask(s.early, s.ring);
  }
  __syncthreads();
  if (ranks > 1) {
    if (warp == 0) work.expect();
    cluster_wait();  // the other block is there
  }
  work.multiply(copies, warp);
  if constexpr (kNormed)
    if (threadIdx.x == 0) last_reader = row.last;
  work.finish(warp);
  if constexpr (kNormed)
    if (last_reader) row.write(s.norm, factor);
}

template <typename Kernel>
void start_ring(Context& context, Kernel* kernel, const Ring& s, const Extents& extents) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(extents.shared)),
        "shared memory");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "shared memory");
  start(context, kernel, extents, s);
}

}  // namespace braid::cuda
