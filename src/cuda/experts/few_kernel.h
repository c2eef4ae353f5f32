// The kernel of few.h. A tile is 16 weight rows of one slot (8 of gate, 8 of up), or 16 outputs of one row with the
// weights of all of its slots. Each block has its even share of both kinds and sums them alone, so nothing is joined
// between blocks; one warp asks for its weights as far ahead as shared memory reaches, also for those of the second
// kind while the blocks wait for each other in between. Eight warps share the columns of a tile, in an order that
// extents alone fix. Bounded by reading the weights, and by the latency of its steps: which experts, their weights, the
// wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/tensor_map.h"
#include "cuda/common/view.h"
#include "cuda/experts/chunk_product.h"
#include "cuda/experts/few.h"
#include "cuda/linear/coding.h"

namespace braid::cuda {

constexpr int kWarps = 8, kFewThreads = kWarps * 32 + 32;
constexpr int kUnit = 16, kChunk = 128;  // chunks of a unit, bytes of a weight's row in a chunk
constexpr int kTileRows = 16, kMostRing = 6;

struct FewMatrices {
  CUtensorMap map, group_map;  // of tiles; groups: of NVFP4
  const float* scales;
  int32_t scale_rows, scale_columns, block_rows;
  int32_t tiles;  // of a matrix, from the beginning of one to the next
  int32_t apart;  // rows from a tile's first eight to its second
  int32_t box;    // chunks that the map finds together
};

struct Few {
  FewMatrices gate_up[2], down[2];  // of the experts, of the shared one
  View x, out, weights, shared_gate;
  const int32_t* chosen;
  int64_t chosen_stride;
  float* hidden;  // [tokens, hidden_width]: the slots' values, then the shared expert's
  int32_t* flags;
  int32_t tokens, k, hidden_width;
  int32_t chunks, slot_chunks, shared_chunks;  // of a row of x, of a slot's and the shared expert's hidden values
  int32_t slot_tiles, shared_tiles;            // of 8 hidden values
  int32_t out_tiles;                           // of a row
  int32_t ring, x_bytes;                       // x_bytes: of all of both kinds' inputs in shared memory
};

template <Coding kCoding>
struct Fewer {
  using C = ChunkProduct<kCoding>;
  static constexpr int kChunkBytes = kTileRows * kChunk, kGroups = kTileRows * C::kGroupBytes;
  static constexpr int kSlot = kUnit * (kChunkBytes + kGroups), kScales = std::max(C::kRowScales, 1) * kUnit;
  const Few& s;
  uint8_t* ring;
  float (*scales)[kScales];
  uint64_t *full, *empty;
  uint8_t* inputs;
  float (*partial)[kWarps][kTileRows];
  int32_t* experts;

  __device__ int hidden_tiles() const { return s.k * s.slot_tiles + s.shared_tiles; }  // of a row of x
  __device__ int hidden_chunks() const { return s.k * s.slot_chunks + s.shared_chunks; }
  __device__ static int first_of(int tiles, unsigned block) {
    return static_cast<int>(int64_t{tiles} * block / gridDim.x);
  }
  struct Place {
    int row, slot, tile;  // slot k: the shared expert
  };
  __device__ Place place(int tile) const {
    const int row = tile / hidden_tiles(), rest = tile - row * hidden_tiles();
    const int slot = min(rest / s.slot_tiles, s.k);
    return {row, slot, rest - slot * s.slot_tiles};
  }

  // The copying warp.
  struct Ring {
    int at = 0;
    uint32_t parity = 1;
    __device__ void next(int ring) {
      if (++at == ring) at = 0, parity ^= 1;
    }
  };
  __device__ void copy_all(int lane) const {
    Ring r;
    for (int i = lane; i < s.tokens * s.k; i += 32) experts[i] = s.chosen[i / s.k * s.chosen_stride + i % s.k];
    __syncwarp();
    const int tiles = s.tokens * hidden_tiles(), until = first_of(tiles, blockIdx.x + 1);
    for (int tile = first_of(tiles, blockIdx.x); tile < until; ++tile) {
      const Place p = place(tile);
      const bool shared = p.slot == s.k;
      const FewMatrices& m = s.gate_up[shared];
      const int matrix = shared ? 0 : experts[p.row * s.k + p.slot];
      for (int chunk = 0; chunk < s.chunks; chunk += kUnit, r.next(s.ring)) {
        const int count = min(kUnit, s.chunks - chunk);
        open(r, count, lane);
        copy_chunks(m, matrix * m.tiles + p.tile, {chunk, count, 0}, r.at, lane);
        copy_scales(m, matrix, p.tile * 8, {chunk, count, 0}, r.at, lane);
        close(r.at);
      }
    }
    copy_down(r, lane);
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  __device__ void copy_down(Ring& r, int lane) const {
    const int tiles = s.tokens * s.out_tiles, until = first_of(tiles, blockIdx.x + 1), routed = s.k * s.slot_chunks;
    for (int tile = first_of(tiles, blockIdx.x); tile < until; ++tile) {
      const int token = tile / s.out_tiles;
      for (int chunk = 0; chunk < hidden_chunks(); chunk += kUnit, r.next(s.ring)) {
        const int count = min(kUnit, hidden_chunks() - chunk);
        open(r, count, lane);
        for (int from = chunk; from < chunk + count;) {
          const int slot = from < routed ? from / s.slot_chunks : s.k, begin = slot * s.slot_chunks;
          const int end = min(chunk + count, slot < s.k ? begin + s.slot_chunks : hidden_chunks());
          const FewMatrices& m = s.down[slot == s.k];
          const int matrix = slot == s.k ? 0 : experts[token * s.k + slot];
          const Chunks part{from - begin, end - from, from - chunk};
          copy_chunks(m, matrix * m.tiles + tile % s.out_tiles, part, r.at, lane);
          copy_scales(m, matrix, tile % s.out_tiles * kTileRows, part, r.at, lane);
          from = end;
        }
        close(r.at);
      }
    }
  }
  // A stage of the ring: all lanes wait for its room, and ask for their parts in between.
  __device__ void open(const Ring& r, int count, int lane) const {
    barrier_wait(empty + r.at, r.parity);
    if (lane == 0) barrier_expect(full + r.at, kTileRows * count * (kChunk + C::kGroupBytes));
    __syncwarp();
  }
  __device__ void close(int at) const {
#if __CUDA_ARCH__ >= 900
    if constexpr (C::kRowScales > 0)
      asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(full + at)) : "memory");
#endif
  }
  // Chunks of a matrix's row, and where the first one goes in the stage.
  struct Chunks {
    int first, count, to;
  };
  __device__ void copy_chunks(const FewMatrices& m, int tile, const Chunks& c, int at, int lane) const {
    uint8_t* to = ring + at * kSlot;
    const int i = lane * m.box;
    if (i >= c.count) return;
    copy_box(to + (c.to + i) * kChunkBytes, m.map, c.first + i, tile, full + at);
    if constexpr (C::kGroupBytes > 0)
      copy_box(to + kUnit * kChunkBytes + (c.to + i) * kGroups, m.group_map, c.first + i, tile, full + at);
  }
  __device__ static void copy_box(void* to, const CUtensorMap& map, int piece, int tile, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    constexpr uint64_t kReadOnce = 0x12F0000000000000;  // a cache policy: these lines are the first to go
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
        "%3, %3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(0), "r"(piece), "r"(tile), "l"(kReadOnce)
        : "memory");
#endif
  }
  // Of a tile whose first row is `row`.
  __device__ void copy_scales(const FewMatrices& m, int matrix, int row, const Chunks& c, int at, int lane) const {
    if constexpr (C::kRowScales > 0) {
      for (int i = lane; i < c.count * C::kRowScales; i += 32) {
        const int chunk = i / C::kRowScales, of_row = i % C::kRowScales * (kTileRows / C::kRowScales);
        const int64_t block = int64_t{matrix} * m.scale_rows + (row + of_row / 8 * m.apart + of_row % 8) / m.block_rows;
        const int column = C::kGroupBytes > 0 ? 0 : c.first + chunk;
        asm volatile(
            "cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(scales[at] + c.to * C::kRowScales + i)),
            "l"(m.scales + block * m.scale_columns + column)
            : "memory");
      }
    }
  }

  // Inputs of `rows` rows from `first` on, of `chunks` chunks each; `value` loads 16 numbers of a row and says what
  // they are multiplied by.
  template <typename Load>
  __device__ void prepare(uint8_t* to, int rows, int chunks, const Load& load) const {
    constexpr int kLanes = C::kColumns / 16, kTeams = kWarps * 32 / kLanes, kTogether = 2;
    const int lane = threadIdx.x % kLanes, jobs = rows * chunks;
    for (int base = threadIdx.x / kLanes; base < jobs; base += kTogether * kTeams) {
      float values[kTogether][16], by[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int job = min(base + i * kTeams, jobs - 1);
        by[i] = load(values[i], job / chunks, job % chunks, lane);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int job = min(base + i * kTeams, jobs - 1);
        C::put(to + job / chunks * C::input_bytes(chunks), chunks, job % chunks, lane, values[i], by[i]);
      }
    }
  }
  __device__ void prepare_x() const {
    prepare(inputs, s.tokens, s.chunks, [&](float(&values)[16], int row, int chunk, int lane) {
      load_16(values, s.x, row * s.x.stride[0] + chunk * C::kColumns + lane * 16);
      return 1.0f;
    });
  }
  __device__ float factor(int row, int slot) const {
    if (slot < s.k) return get(s.weights, row * s.weights.stride[0] + slot);
    return s.shared_gate.data == nullptr ? 1.0f : sigmoid(get(s.shared_gate, row * s.shared_gate.stride[0]));
  }
  __device__ uint8_t* hidden_inputs() const { return inputs + s.tokens * C::input_bytes(s.chunks); }
  __device__ void prepare_hidden(int first, int rows) const {
    prepare(hidden_inputs(), rows, hidden_chunks(), [&](float(&values)[16], int row, int chunk, int lane) {
      const auto* from = reinterpret_cast<const float4*>(s.hidden + int64_t{first + row} * s.hidden_width +
                                                         chunk * C::kColumns + lane * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 four = __ldcg(from + i);
        values[4 * i] = four.x, values[4 * i + 1] = four.y, values[4 * i + 2] = four.z, values[4 * i + 3] = four.w;
      }
      return factor(first + row, min(chunk / s.slot_chunks, s.k));
    });
  }

  // The multiplying warps: a tile's sums by all of them, in `partial`.
  __device__ void multiply(const uint8_t* x, int chunks, Ring& r, float (&to)[kWarps][kTileRows]) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sums[2] = {0, 0};
    for (int first = 0; first < chunks; first += kUnit, r.next(s.ring)) {
      const int count = min(kUnit, chunks - first);
      barrier_wait(full + r.at, r.parity ^ 1);
      const uint8_t* here = ring + r.at * kSlot;
#pragma unroll
      for (int i = 0; i < kUnit / kWarps; ++i) {
        const int chunk = warp + i * kWarps;
        if (chunk >= count) continue;
        const float* by = scales[r.at] + chunk * C::kRowScales + (C::kRowScales > 2 ? lane / 4 : 0);
        C::add(sums, here + chunk * kChunkBytes, here + kUnit * kChunkBytes + chunk * kGroups, x, chunks, first + chunk,
               C::kRowScales > 0 ? by[0] : 1.0f, C::kRowScales > 0 ? by[C::kRowScales / 2] : 1.0f);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + r.at);
    }
    if (lane % 4 == 0) to[warp][lane / 4] = sums[0], to[warp][lane / 4 + 8] = sums[1];
    asm volatile("bar.sync 1, 256;" ::: "memory");
  }
  __device__ static float total(const float (&from)[kWarps][kTileRows], int row) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += from[w][row];
    return sum;
  }
  __device__ void multiply_all() const {
    Ring r;
    int turn = 0;
    prepare_x();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    const int tiles = s.tokens * hidden_tiles(), until = first_of(tiles, blockIdx.x + 1);
    for (int tile = first_of(tiles, blockIdx.x); tile < until; ++tile, turn ^= 1) {
      const Place p = place(tile);
      multiply(inputs + p.row * C::input_bytes(s.chunks), s.chunks, r, partial[turn]);
      if (threadIdx.x < 8)
        s.hidden[int64_t{p.row} * s.hidden_width + p.slot * s.slot_tiles * 8 + p.tile * 8 + threadIdx.x] =
            silu(total(partial[turn], threadIdx.x)) * total(partial[turn], threadIdx.x + 8);
    }
    wait_for_all();
    const int outputs = s.tokens * s.out_tiles, begin = first_of(outputs, blockIdx.x),
              end = first_of(outputs, blockIdx.x + 1);
    if (begin == end) return;
    const int first = begin / s.out_tiles;
    prepare_hidden(first, (end - 1) / s.out_tiles - first + 1);
    asm volatile("bar.sync 1, 256;" ::: "memory");
    for (int tile = begin; tile < end; ++tile, turn ^= 1) {
      const int row = tile / s.out_tiles;
      multiply(hidden_inputs() + (row - first) * C::input_bytes(hidden_chunks()), hidden_chunks(), r, partial[turn]);
      if (threadIdx.x < kTileRows)
        put(s.out, row * s.out.stride[0] + tile % s.out_tiles * kTileRows + threadIdx.x,
            total(partial[turn], threadIdx.x));
    }
  }
  // Until every block has stored its hidden values. All blocks are on the device at once; the last one to see it clears
  // the counts.
  __device__ void wait_for_all() const {
    if (threadIdx.x < 8) __threadfence();
    __syncwarp();
    if (threadIdx.x == 0) {
      const int blocks = static_cast<int>(gridDim.x);
      atomicAdd(s.flags, 1);
      while (*static_cast<volatile int32_t*>(s.flags) < blocks) {
      }
      __threadfence();
      if (atomicAdd(s.flags + 1, 1) == blocks - 1) s.flags[0] = 0, s.flags[1] = 0;
    }
    asm volatile("bar.sync 1, 256;" ::: "memory");
  }
};

}  // namespace braid::cuda
