// The kernel of experts for few rows: every slot (a row of x and one of its experts) is a product of its own. Two
// groups of four warps multiply 64 weight rows each; one warp has the copy engine bring the next stages. Weights are
// the left operand and a row of x the columns, so no weight is decoded: E4M3 codes go to the tensor cores as they are,
// and a number of x is two E4M3 codes in two columns (coding.h), exact for bf16. Blocks share the stages of all tiles
// evenly; who holds a tile's beginning adds what other blocks found of it, in order, so sums do not depend on timing.
// Bounded by reading the weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/common/tensor_map.h"
#include "cuda/common/thread_copies.h"
#include "cuda/common/warp_group.h"
#include "cuda/linear/coding.h"
#include "cuda/linear/product.h"
#include "cuda/linear/shared_products_few.h"

namespace braid::cuda {

// A weight of all experts, or of the shared one, and where its tiles lie among all of them.
struct StreamSource {
  CUtensorMap map;
  const float* scales = nullptr;
  int32_t scale_columns = 0, scale_rows = 0, block_rows = 1;
  int32_t rows = 0;  // of one matrix
  int32_t first_tile = 0;
};

// What tiles are:
//   Chosen  64 + 64 rows of gate and up of the expert in one slot of one row of x (source 0), after all slots those of
//           the shared expert (source 1); out is `hidden`: per row of x the slots' values, then the shared expert's
//   Joined  128 outputs of one row of x, the sum over its slots and the shared expert, columns of `hidden` after each
//           other
enum class StreamMode { Chosen, Joined };

struct Stream {
  StreamSource sources[2];
  int32_t tiles = 0;
  int32_t stages = 0;  // of a tile: 128 bytes of each of its rows
  View x, out;
  int32_t tokens = 0;
  const int32_t* chosen = nullptr;
  int64_t chosen_stride = 0;
  View weights, shared_gate;
  int32_t k = 0;
  int32_t slot_stages = 0;  // Joined: of one slot
  int32_t x_rows = 0;       // rows of x in shared memory
  int32_t row_bytes = 0;    // of each
  // Work memory: sums of blocks that do not begin their tile, and whether they are there (zero between launches).
  float* parts = nullptr;
  int32_t* flags = nullptr;
  int32_t ring = 0;  // stages in shared memory
};

constexpr int kStreamThreads = 288;
constexpr int kStreamRing = 8;     // most stages in shared memory
constexpr int kStreamColumns = 8;  // of the tensor cores
constexpr int kGroups = 2, kGroupThreads = 128, kStageBytes = kGroups * kMapBytes;

__device__ inline void sync_group(int group) { asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory"); }
__device__ inline void sync_groups() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// An operand in shared memory: rows of 128 bytes as the copy engine puts them; or pieces of 16 bytes, `apart` bytes
// from one to the next along the sum.
__device__ inline uint64_t tile_operand(uint32_t at) { return operand_at(at, 16); }
__device__ inline uint64_t pieces_operand(uint32_t at, int apart) {
  return (uint64_t{at} & 0x3FFFF) >> 4 | static_cast<uint64_t>(apart >> 4) << 16;
}

template <bool kFp8, StreamMode kMode>
struct Streaming {
  static constexpr int kPieces = kFp8 ? 2 : 1;           // columns of a row of x
  static constexpr int kStageColumns = kFp8 ? 128 : 64;  // of the weight
  static constexpr int kLanes = kStageColumns / 16;      // that prepare a stage of a row of x
  static constexpr int kSums = kStreamColumns / 2;
  static constexpr int kApart = 16 * kPieces;  // bytes from a piece of x to the next along the sum

  const Stream& s;
  uint8_t* ring;    // [s.ring][group][64 rows of 128 bytes]
  uint8_t* x;       // prepared
  float* x_scales;  // [rows in memory][stages][kStreamColumns]
  float* up;        // [kSums][128]: what the second group hands to the first
  float (*w_scales)[kGroups];
  uint64_t *full, *empty;
  int32_t begin, end;  // units of this block: stages of all tiles in order

  // Where a tile's rows are.
  struct Place {
    int source, row_of_x, column;  // of the output
    int64_t row;                   // within its matrix, of group 0
    int64_t apart;                 // to the row of group 1
    int slot;                      // Chosen: of the routed expert; -1: shared
  };
  __device__ Place place(int tile) const {
    Place p{0, 0, 0, 0, 64, -1};
    const int routed = s.sources[0].rows / 128;  // tiles of an expert
    if constexpr (kMode == StreamMode::Joined) {
      p.row_of_x = tile / routed, p.column = tile % routed * 128, p.row = p.column;
    } else {
      const int shared = s.sources[1].rows / 128;
      const bool is_shared = tile >= s.sources[1].first_tile;
      const int item = is_shared ? tile - s.sources[1].first_tile : tile, each = is_shared ? shared : routed;
      p.source = is_shared, p.slot = is_shared ? -1 : item / each;
      p.row_of_x = is_shared ? item / each : p.slot / s.k;
      p.column = item % each * 64 + (is_shared ? s.k : p.slot % s.k) * routed * 64;
      p.apart = s.sources[p.source].rows / 2;
      p.row = item % each * 64;
    }
    return p;
  }
  __device__ int expert(int slot) const { return s.chosen[slot / s.k * s.chosen_stride + slot % s.k]; }

  // One lane of the copying warp per group: asks for its rows of every unit, as soon as there is room.
  __device__ void copy(int group) const {
    int tile = begin / s.stages, stage = begin - tile * s.stages;
    Place p = place(tile);
    int64_t matrix = kMode == StreamMode::Chosen && p.slot >= 0 ? expert(p.slot) : 0;
    const int routed_stages = kMode == StreamMode::Joined ? s.slot_stages : 0;  // of one expert
    for (int unit = begin, at = 0, parity = 1; unit < end; ++unit) {
      int source = p.source, column = stage;
      if constexpr (kMode == StreamMode::Joined) {
        const int slot = stage / routed_stages;
        source = slot >= s.k;
        column = source != 0 ? stage - s.k * routed_stages : stage - slot * routed_stages;
        matrix = source != 0 ? 0 : expert(p.row_of_x * s.k + slot);
      }
      const StreamSource& from = s.sources[source];
      const int64_t row = p.row + group * p.apart;
      barrier_wait(empty + at, parity);
      barrier_expect(full + at, kMapBytes);
      copy_tile(ring + at * kStageBytes + group * kMapBytes, from.map, column * kStageColumns,
                static_cast<int>(matrix * from.rows + row), full + at);
      if constexpr (kFp8) {
        const int64_t block = min(row, int64_t{from.rows} - 1) / from.block_rows;
        copy_async<4>(&w_scales[at][group],
                      from.scales + (matrix * from.scale_rows + block) * from.scale_columns + column);
        arrive_after_copies(full + at);
      }
      if (++at == s.ring) at = 0, parity ^= 1;
      if (++stage < s.stages) continue;
      stage = 0, ++tile;
      if (unit + 1 == end) break;
      p = place(tile);
      if (kMode == StreamMode::Chosen) matrix = p.slot >= 0 ? expert(p.slot) : 0;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  __device__ static void copy_tile(void* to, const CUtensorMap& map, int column, int row, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    constexpr uint64_t kReadOnce = 0x12F0000000000000;  // a cache policy: these lines are the first to go
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
        "%4}], "
        "[%2], %5;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "l"(kReadOnce)
        : "memory");
#endif
  }
  // The first row of x that is in memory, and how many are: all, but of Joined those of this block's tiles.
  __device__ int first_row() const { return kMode == StreamMode::Joined ? place(begin / s.stages).row_of_x : 0; }
  __device__ int rows_in_memory() const {
    return kMode == StreamMode::Joined ? place((end - 1) / s.stages).row_of_x - first_row() + 1 : s.tokens;
  }
  __device__ float factor(int row, int stage) const {
    if constexpr (kMode != StreamMode::Joined) return 1;
    const int slot = stage / s.slot_stages;
    if (slot < s.k) return get(s.weights, row * s.weights.stride[0] + slot);
    return s.shared_gate.data == nullptr ? 1.0f : sigmoid(get(s.shared_gate, row * s.shared_gate.stride[0]));
  }

  // All multiplying threads: x as columns of the right operand.
  __device__ void prepare() const {
    constexpr int kTogether = 2;  // loads under way
    const int first = first_row(), jobs = rows_in_memory() * s.stages, lane = threadIdx.x % kLanes;
    constexpr int kTeams = kGroups * kGroupThreads / kLanes;
    for (int base = threadIdx.x / kLanes; base < jobs; base += kTogether * kTeams) {
      float values[kTogether][16], factors[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int job = min(base + i * kTeams, jobs - 1), row = job / s.stages, stage = job - row * s.stages;
        load_16(values[i], s.x, (first + row) * s.x.stride[0] + stage * kStageColumns + lane * 16);
        factors[i] = factor(first + row, stage);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int job = min(base + i * kTeams, jobs - 1), row = job / s.stages;
        put_x(values[i], factors[i], row, job - row * s.stages, lane);
      }
    }
  }
  __device__ uint8_t* piece_at(int row, int piece, int along) const {
    return x + row * s.row_bytes + along * kApart + piece * 16;
  }
  __device__ void put_x(const float (&values)[16], float by, int row, int stage, int lane) const {
    if constexpr (kFp8) {
      const float scale = scale_of<kLanes>(values);
      uint32_t words[4];
      code_16(words, values, 1 / scale);
      *reinterpret_cast<uint4*>(piece_at(row, 0, stage * 8 + lane)) = {words[0], words[1], words[2], words[3]};
      code_rest_16(words, values, 1 / scale);
      *reinterpret_cast<uint4*>(piece_at(row, 1, stage * 8 + lane)) = {words[0], words[1], words[2], words[3]};
      if (lane == 0)
        *reinterpret_cast<float2*>(x_scales + (row * s.stages + stage) * kStreamColumns) = {scale * by,
                                                                                            scale * by * kRestScale};
    } else {
      uint32_t words[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(values[2 * i] * by, values[2 * i + 1] * by);
        words[i] = *reinterpret_cast<const uint32_t*>(&both);
      }
      *reinterpret_cast<uint4*>(piece_at(row, 0, stage * 8 + 2 * lane)) = {words[0], words[1], words[2], words[3]};
      *reinterpret_cast<uint4*>(piece_at(row, 0, stage * 8 + 2 * lane + 1)) = {words[4], words[5], words[6], words[7]};
    }
  }

  // A group's products of all units of this block.
  __device__ void multiply(int group) const {
    const uint32_t left = shared_address(ring) + group * kMapBytes, right = shared_address(x);
    const int first = first_row(), pair = threadIdx.x % 4 * 2;
    float sums[kSums] = {}, fresh[kSums] = {};
    for (int unit = begin, at = 0, parity = 0; unit < end;) {
      const int tile = unit / s.stages, first_stage = unit - tile * s.stages, until = min((tile + 1) * s.stages, end);
      const Place p = place(tile);
      const int row = p.row_of_x - (kMode == StreamMode::Joined ? first : 0);
      const float* scales = x_scales + row * s.stages * kStreamColumns + pair;
      for (int stage = first_stage; unit < until; ++unit, ++stage) {
        barrier_wait(full + at, parity);
        const uint64_t a = tile_operand(left + at * kStageBytes);
        const uint64_t b = pieces_operand(right + row * s.row_bytes + stage * 8 * kApart, kApart);
        begin_products();
#pragma unroll
        for (int i = 0; i < 4; ++i)
          SharedProduct<kStreamColumns, kFp8>::add(kFp8 ? fresh : sums, a + 2 * i, b + (2 * i * kApart >> 4),
                                                   !kFp8 || i > 0);
        commit_products();
        wait_products<0>();
        const float by = kFp8 ? w_scales[at][group] : 1.0f;
        if (threadIdx.x % kGroupThreads == 0) barrier_arrive(empty + at);
        if constexpr (kFp8) {
          settle(fresh);
#pragma unroll
          for (int j = 0; j < kStreamColumns / 8; ++j) {
            const float2 of_x = *reinterpret_cast<const float2*>(scales + stage * kStreamColumns + 8 * j);
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[4 * j + i] += by * (i % 2 == 0 ? of_x.x : of_x.y) * fresh[4 * j + i];
          }
        } else {
          settle(sums);
        }
        if (++at == s.ring) at = 0, parity ^= 1;
      }
      const bool whole = unit == (tile + 1) * s.stages;
      if (first_stage > 0) {
        leave(group, sums);
      } else {
        if (!whole) gather(group, tile, sums);
        finish(group, p, sums);
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] = 0;
    }
  }

  __device__ int first_unit(int block) const {
    return static_cast<int>(int64_t{s.tiles} * s.stages * block / gridDim.x);
  }
  __device__ float* part(int block) const {
    return s.parts + block * int64_t{kGroups * kGroupThreads * kSums} + threadIdx.x;
  }
  // What this block found of a tile that begins in an earlier one.
  __device__ void leave(int group, const float (&sums)[kSums]) const {
    float* to = part(blockIdx.x);
#pragma unroll
    for (int i = 0; i < kSums; ++i) to[i * kGroups * kGroupThreads] = sums[i];
    __threadfence();
    sync_group(group);
    if (threadIdx.x % kGroupThreads == 0) atomicExch(s.flags + blockIdx.x * kGroups + group, 1);
  }
  // Adds what later blocks found of the tile, in their order.
  __device__ void gather(int group, int tile, float (&sums)[kSums]) const {
    constexpr int kTogether = 4;
    int last = blockIdx.x;
    while (first_unit(last + 1) < (tile + 1) * s.stages) ++last;
    const int own = blockIdx.x + 1 + static_cast<int>(threadIdx.x) % kGroupThreads;
    if (own <= last) {
      volatile int32_t* flag = s.flags + own * kGroups + group;
      while (*flag == 0) {
      }
      *flag = 0;
    }
    __threadfence();
    sync_group(group);
    for (int block = blockIdx.x + 1; block <= last; block += kTogether) {
      float found[kTogether][kSums];
#pragma unroll
      for (int b = 0; b < kTogether; ++b)
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          found[b][i] = block + b <= last ? __ldcg(part(block + b) + i * kGroups * kGroupThreads) : 0.0f;
#pragma unroll
      for (int b = 0; b < kTogether; ++b)
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums[i] += found[b][i];
    }
  }

  // Stores a tile: a row of sums is a weight row, the first column (or two) the row of x.
  __device__ void finish(int group, const Place& p, const float (&sums)[kSums]) const {
    constexpr bool kPairs = kMode == StreamMode::Chosen;
    const int thread = threadIdx.x % kGroupThreads, lane = threadIdx.x % 32;
    if (kPairs) {
      if (group == 1)
#pragma unroll
        for (int i = 0; i < kSums; ++i) up[i * kGroupThreads + thread] = sums[i];
      sync_groups();
    }
    if ((!kPairs || group == 0) && lane % 4 == 0) {
      const int row = p.column + (kPairs ? 0 : group * 64) + thread / 32 * 16 + lane / 4;
#pragma unroll
      for (int i = 0; i < kSums; i += 2) {
        const auto joined = [&](const float* from, int stride) {
          return kFp8 ? from[i * stride] + from[(i + 1) * stride] : from[i * stride];
        };
        float value = joined(sums, 1);
        if (kPairs) value = silu(value) * joined(up + thread, kGroupThreads);
        put(s.out, p.row_of_x * s.out.stride[0] + row + i / 2 * 8, value);
      }
    }
    if (kPairs) sync_groups();
  }
};

template <bool kFp8, StreamMode kMode>
__global__ void __launch_bounds__(kStreamThreads, 1) stream_kernel(const __grid_constant__ Stream s) {
  extern __shared__ uint8_t memory[];
  __shared__ uint64_t full[kStreamRing], empty[kStreamRing];
  __shared__ float w_scales[kStreamRing][kGroups];
  __shared__ float up[kStreamColumns / 2 * kGroupThreads];
  uint8_t* ring = memory + (1024 - shared_address(memory) % 1024) % 1024;
  uint8_t* x = ring + s.ring * kStageBytes;
  const auto first_unit = [&](unsigned block) {
    return static_cast<int32_t>(int64_t{s.tiles} * s.stages * block / gridDim.x);
  };
  const Streaming<kFp8, kMode> streaming{s,
                                         ring,
                                         x,
                                         reinterpret_cast<float*>(x + s.x_rows * int64_t{s.row_bytes} + 128),
                                         up,
                                         w_scales,
                                         full,
                                         empty,
                                         first_unit(blockIdx.x),
                                         first_unit(blockIdx.x + 1)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < s.ring; ++i) {
      barrier_init(full + i, kFp8 ? 2 * kGroups : kGroups);
      barrier_init(empty + i, kGroups);
    }
    barriers_made();
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  // Which expert is chosen is known when the launch before this one's predecessor has ended (Joined), or the
  // predecessor (Chosen).
  if (kMode == StreamMode::Chosen) await_then_allow();
  if (warp == kStreamThreads / 32 - 1) {
    if (threadIdx.x % 32 < kGroups) streaming.copy(threadIdx.x % 32);
    return;
  }
  if (kMode == StreamMode::Joined) await_then_allow();
  streaming.prepare();
  publish_to_copies();
  sync_groups();
  streaming.multiply(warp / 4);
}

}  // namespace braid::cuda
