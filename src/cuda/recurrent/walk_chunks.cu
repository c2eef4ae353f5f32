// The chunks of a sequence one after the other, two blocks a value head with 64 columns of its state each. Four warps
// keep the state, transposed, in registers: every product then takes its left operand from the sums of the one before,
// and its right operand from shared memory. Four more warps ask for the tiles ahead and norm, gate and write what was
// read of the state; the two blocks of a head exchange sums of squares. Bounded by those four, which are late with the
// tiles, then by the latency of a chunk's three products in a row.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/arrival.h"
#include "cuda/common/warp_group.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kColumns = 64, kReadStride = kColumns + 4, kWalkThreads = 256;

struct Stage {
  uint8_t heads[kHeadTiles * kTileBytes];
  uint8_t mixes[2 * kTileBytes];
  uint8_t values[kTileBytes];
  float decays[kDecays][kChunk];
  uint8_t pad[1024 - kDecays * kChunk * 4];
};
static_assert(sizeof(Stage) % 1024 == 0);

constexpr int kStages = 3;

struct Shared {
  Stage stages[kStages];
  float read[2][kChunk][kReadStride];  // o of the block's columns
  float squares[2][2][kChunk];         // [parity][block of the head]
  uint64_t filled[kStages];
  uint64_t read_filled[2], read_emptied[2];
  uint64_t squares_filled[2];
};

// The blocks of one value head, and the chunks of its sequence.
struct Walk {
  int head, group, slice;
  int32_t sequence;
  int chunks;
  int64_t place;
  Run run;

  __device__ static Walk of(const DeltaView& d) {
    Walk w;
    w.slice = static_cast<int>(cluster_rank()), w.head = static_cast<int>(blockIdx.x) / 2;
    w.group = w.head / (d.value_heads / d.key_heads), w.sequence = static_cast<int32_t>(blockIdx.y);
    w.run = Run::of(d.rows, w.sequence), w.place = first_place(d.rows, w.sequence) + w.run.first_chunk();
    w.chunks = __shfl_sync(kAllLanes, w.run.chunks(), 0);
    return w;
  }
};

// Begins to bring the tiles of chunk `c`; one thread does.
__device__ void fill_stage(const DeltaView& d, const ChunkTiles& tiles, const Walk& walk, Shared& shared, int c) {
  if (c >= walk.chunks) return;
  Stage& stage = shared.stages[c % kStages];
  const int64_t place = walk.place + c, mix = place * d.value_heads + walk.head;
  const uint8_t* mixes = tiles.mixes + mix * kMixTiles * kTileBytes;
  uint64_t* filled = &shared.filled[c % kStages];
  barrier_expect(filled, sizeof(stage.heads) + sizeof(stage.mixes) + sizeof(stage.values) + sizeof(stage.decays));
  bulk_copy(stage.heads, tiles.heads + (place * d.key_heads + walk.group) * kHeadTiles * kTileBytes,
            sizeof(stage.heads), filled);
  bulk_copy(stage.mixes, mixes, sizeof(stage.mixes), filled);
  bulk_copy(stage.values, mixes + (kMixValues + walk.slice) * kTileBytes, sizeof(stage.values), filled);
  bulk_copy(stage.decays, tiles.decays + mix * kDecays * kChunk, sizeof(stage.decays), filled);
}

// Sums as left operands.
template <int kPairs>
__device__ __forceinline__ void pack(const float (&sums)[2 * kPairs], uint32_t (&out)[kPairs]) {
#pragma unroll
  for (int i = 0; i < kPairs; ++i) out[i] = half_pair(sums[2 * i], sums[2 * i + 1]);
}

// out [64 x 64] = left [64 x 128] * tile^T, the tile [64 rows x 128] in two tiles of 64 columns.
__device__ __forceinline__ void multiply_head(float (&out)[32], const uint32_t (&left)[32], uint32_t tile) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step)
    multiply<kChunk, 0>(out, left + 4 * step, operand_at(tile + step / 4 * kTileBytes + step % 4 * 32, 0), step > 0);
}

// out [64 x 64] (+)= left [64 x 64] * tile^T.
__device__ __forceinline__ void multiply_tile(float (&out)[32], const uint32_t (&left)[16], uint32_t tile, bool add) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step)
    multiply<kChunk, 0>(out, left + 4 * step, operand_at(tile + step * 32, 0), add || step > 0);
}

// state [64 x 128] += left [64 x 64] * tile, the tile [64 rows x 128].
__device__ __forceinline__ void multiply_rows(float (&state)[64], const uint32_t (&left)[16], uint32_t tile) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step)
    multiply<kHead, 1>(state, left + 4 * step, operand_at(tile + step * 16 * 128, kTileBytes), true);
}

// v of this warp's 16 columns as the sums lie, in pairs of rows.
__device__ __forceinline__ void load_values(uint32_t (&out)[16], const uint8_t* tile) {
  const int lane = threadIdx.x % 32, piece = threadIdx.x / 32 * 2 + lane / 8 % 2;
#pragma unroll
  for (int j = 0; j < 8; j += 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[2 * j]), "=r"(out[2 * j + 1]), "=r"(out[2 * j + 2]), "=r"(out[2 * j + 3])
                 : "r"(shared_address(tile + swizzled(8 * (j + lane / 16) + lane % 8, piece))));
}

// sums[., i] *= factors[i] over the chunk's rows.
__device__ __forceinline__ void scale_rows(float (&sums)[32], const float* factors) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(factors + 8 * j + threadIdx.x % 4 * 2);
    sums[4 * j] *= factor.x, sums[4 * j + 1] *= factor.y, sums[4 * j + 2] *= factor.x, sums[4 * j + 3] *= factor.y;
  }
}

// p = beta v - beta since p, which has S^T k: v[2 j] holds rows 8 j + 2 t, + 1 of column g, v[2 j + 1] those of g + 8.
__device__ __forceinline__ void take_from(const uint32_t (&v)[16], const float* factors, float (&p)[32]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = *reinterpret_cast<const float2*>(factors + 8 * j + threadIdx.x % 4 * 2);
    const float2 first = halves_of(v[2 * j]), second = halves_of(v[2 * j + 1]);
    p[4 * j] = fmaf(-factor.x, p[4 * j], first.x), p[4 * j + 1] = fmaf(-factor.y, p[4 * j + 1], first.y);
    p[4 * j + 2] = fmaf(-factor.x, p[4 * j + 2], second.x), p[4 * j + 3] = fmaf(-factor.y, p[4 * j + 3], second.y);
  }
}

// This warp's 16 columns of the state between memory and sums.
template <bool kStore>
__device__ __forceinline__ void move_state(float* state, float (&s)[64]) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < 16; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& at = state[(8 * j + 2 * t + i % 2) * kHead + i / 2 * 8];
      kStore ? at = s[4 * j + i] : s[4 * j + i] = at;
    }
}

// The sums and operands of the four warps that walk.
struct Columns {
  float s[64], p[32], o[32];  // state; S^T k, then u; what is read of the state
  uint32_t held[32], v[16], left[16], written[16];

  // Begins S^T k.
  __device__ __forceinline__ void ask(const Stage& stage) {
    begin_products();
    multiply_head(p, held, shared_address(stage.heads));
    commit_products();
  }
  // From S^T k to where two sets run: the new state, then the outputs.
  __device__ __forceinline__ void advance(const Stage& stage) {
    const uint32_t keys = shared_address(stage.heads), mixes = shared_address(stage.mixes);
    load_values(v, stage.values);
    take_from(v, stage.decays[2], p);
    pack(p, left);
    begin_products();
    multiply_tile(p, left, mixes, false);
    commit_products();
    multiply_head(o, held, keys + 2 * kTileBytes);
    commit_products();
    wait_products<1>();
    settle(p);
    pack(p, left);  // u itself, for the outputs
    scale_rows(p, stage.decays[1]);
    pack(p, written);
    wait_products<0>();
    settle(o), settle(held);
    const float whole = stage.decays[0][kChunk - 1];
#pragma unroll
    for (int i = 0; i < 64; ++i) s[i] *= whole;
    scale_rows(o, stage.decays[0]);
    begin_products();
    multiply_rows(s, written, keys);
    commit_products();
    multiply_tile(o, left, mixes + kMixRead * kTileBytes, true);
    commit_products();
  }
  __device__ __forceinline__ void hand_over(Shared& shared, int c) {
    const int at = c % 2, column = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    if (c >= 2) barrier_wait(&shared.read_emptied[at], (c / 2 + 1) % 2);
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) shared.read[at][8 * j + 2 * t + i % 2][column + i / 2 * 8] = o[4 * j + i];
    barrier_arrive(&shared.read_filled[at]);
  }
};

// Every product runs beside the numbers that are made for another one: the next chunk's S^T k begins before this one's
// outputs are handed over.
__device__ void walk_state(const DeltaView& d, const Walk& walk, Shared& shared) {
  float* state =
      state_of(d, walk.sequence, walk.head) + walk.slice * kColumns + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  Columns columns;
  move_state<false>(state, columns.s);
  pack(columns.s, columns.held);
  int slot = 0;
  uint32_t round = 0;
  barrier_wait(&shared.filled[slot], round);
  columns.ask(shared.stages[slot]);
  wait_products<0>();
  settle(columns.p);
  for (int c = 0; c + 1 < walk.chunks; ++c) {
    columns.advance(shared.stages[slot]);
    if (++slot == kStages) slot = 0, round ^= 1;
    wait_products<1>();
    settle(columns.s);
    pack(columns.s, columns.held);
    barrier_wait(&shared.filled[slot], round);
    columns.ask(shared.stages[slot]);
    wait_products<1>();
    settle(columns.o);
    columns.hand_over(shared, c);
    wait_products<0>();
    settle(columns.p);
  }
  columns.advance(shared.stages[slot]);
  wait_products<0>();
  settle(columns.s), settle(columns.o);
  columns.hand_over(shared, walk.chunks - 1);
  move_state<true>(state, columns.s);
}

// Norm and gate: half a warp a row, eight rows of the chunk for each thread, all of them abreast.
template <typename Q>
__device__ void finish_rows(const DeltaView& d, const ChunkTiles& tiles, const Walk& walk, Shared& shared) {
  constexpr int kEach = kChunk / 8;
  const int thread = threadIdx.x % 128, first = thread / 16, column = thread % 16 * 4;
  const int64_t channel = int64_t{walk.head} * kHead + walk.slice * kColumns + column;
  const float4 norm = *reinterpret_cast<const float4*>(d.norm + walk.slice * kColumns + column);
  const auto gate = [&](float z) { return (d.silu_gate ? z : 1.0f) * quick_sigmoid(z); };
  for (int c = 0; thread == 0 && c < kStages; ++c) fill_stage(d, tiles, walk, shared, c);
  for (int c = 0; c < walk.chunks; ++c) {
    const int at = c % 2, index = walk.run.first_chunk() + c, rows = walk.run.end(index) - walk.run.begin(index);
    const uint32_t parity = c / 2 % 2;
    const int64_t row = walk.run.start + walk.run.begin(index);
    if (thread == 0) barrier_expect(&shared.squares_filled[at], kChunk * 4);
    typename Q::Raw z[kEach];
    float4 o[kEach];
    float squares[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) z[i] = Q::load(d.z, (row + min(first + 8 * i, rows - 1)) * d.z.stride[0] + channel);
    barrier_wait(&shared.read_filled[at], parity);
    if (thread == 0) fill_stage(d, tiles, walk, shared, c + kStages);  // what reads the stage is over
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      o[i] = *reinterpret_cast<const float4*>(&shared.read[at][first + 8 * i][column]);
      squares[i] = o[i].x * o[i].x + o[i].y * o[i].y + o[i].z * o[i].z + o[i].w * o[i].w;
    }
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
#pragma unroll
      for (int i = 0; i < kEach; ++i) squares[i] += __shfl_xor_sync(kAllLanes, squares[i], offset);
    barrier_arrive(&shared.read_emptied[at]);
    if (thread % 16 == 0) {
      const uint32_t there = address_in(1 - walk.slice, &shared.squares[at][walk.slice][first]);
      const uint32_t barrier = address_in(1 - walk.slice, &shared.squares_filled[at]);
#pragma unroll
      for (int i = 0; i < kEach; ++i) store_in(there + i * 32, squares[i], barrier);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float4 of = Q::widen(z[i]);
      o[i] = {o[i].x * norm.x * gate(of.x), o[i].y * norm.y * gate(of.y), o[i].z * norm.z * gate(of.z),
              o[i].w * norm.w * gate(of.w)};
    }
    barrier_wait(&shared.squares_filled[at], parity);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int r = first + 8 * i;
      const float other = shared.squares[at][1 - walk.slice][r];
      const float factor = rsqrtf((squares[i] + other) * (1.0f / kHead) + d.epsilon);
      if (r < rows)
        Q::store(d.out, (row + r) * d.out.stride[0] + channel,
                 {o[i].x * factor, o[i].y * factor, o[i].z * factor, o[i].w * factor});
    }
  }
}

template <typename Q>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kWalkThreads, 1)
    walk_kernel(DeltaView d, ChunkTiles tiles) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const Walk walk = Walk::of(d);
  if (walk.chunks == 0) return;
  if (threadIdx.x == 0) {
    for (uint64_t& barrier : shared.filled) barrier_init(&barrier, 1);
    for (int i = 0; i < 2; ++i) {
      barrier_init(&shared.read_filled[i], 128), barrier_init(&shared.read_emptied[i], 128);
      barrier_init(&shared.squares_filled[i], 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_sync();
  if (__shfl_sync(kAllLanes, threadIdx.x / 128, 0) == 0)
    walk_state(d, walk, shared);
  else
    finish_rows<Q>(d, tiles, walk, shared);
  __syncwarp();
  cluster_sync();  // a block's memory lives until the other one has written to
                   // it
}

}  // namespace

void walk_chunks(cudaStream_t stream, const DeltaView& d, const ChunkTiles& tiles) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  const dim3 grid(static_cast<unsigned>(2 * d.value_heads), static_cast<unsigned>(d.rows.sequences));
  with_quads(d, [&](auto quads) {
    const auto kernel = walk_kernel<decltype(quads)>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    kernel<<<grid, kWalkThreads, kBytes, stream>>>(d, tiles);
  });
}

}  // namespace braid::cuda
