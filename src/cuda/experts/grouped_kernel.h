// One group of four warps brings weights and rows of x into a ring of stages; two groups multiply, weight rows as rows
// and slots as columns. The copy engine brings weights, and rows of x that follow each other; rows that must be
// gathered are copied 16 bytes a thread, as far ahead as the ring reaches. A block walks over the tiles of all
// groups and knows the next tile's rows before it has begun that tile; sums go straight from registers to `out`,
// transposed in pairs of rows. A gated tile holds 8 rows of gate and 8 of up in turn, so that a thread has both.
// Bounded by reading the weights; of many slots in FP8 by instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/tensor_map.h"
#include "cuda/common/warp_group.h"
#include "cuda/experts/grouped.h"
#include "cuda/linear/shared_products_many.h"

namespace braid::cuda {

constexpr int kGroupedThreads = 384, kGroup = 128;

template <bool kFp8, int kMost>
struct GroupedForm {
  static constexpr int kBlocks = kFp8 ? 1 : 2;  // of 64 weight rows that a group of warps multiplies
  static constexpr int kRows = 2 * 64 * kBlocks, kColumns = kFp8 ? 128 : 64;
  static constexpr int kWeights = 2 * kBlocks * kMapBytes, kStage = kWeights + kMost * 128;
  static constexpr int kScales = kFp8 ? kMost + 4 : 0;  // of the stage's slots, then of its weight rows
  static constexpr int kMemory = 226 * 1024;
  static constexpr int kStages = (kMemory - 1024) / (kStage + kScales * 4);
  static constexpr int kBytes = kStages * (kStage + kScales * 4 + 16);
  static constexpr int kCopyRegisters = 56, kProductRegisters = 224;
  static constexpr int kBoxRows = kMost > 32 ? 32 : 8;  // of x, that the copy engine brings together
};

struct GroupedSource {
  CUtensorMap map;
  const float* scales;
  int32_t scale_columns, scale_rows, block_rows;
};

struct GroupedArguments {
  GroupedSource sources[2];  // the experts, and the matrix behind them
  CUtensorMap x_map;
  View out;
  const uint8_t* x;
  const float* x_scales;  // [stages, rows of x]
  const int32_t* rows_of_x;
  int64_t x_bytes, x_rows;
  const Group* groups;
  const int32_t* group_count;
  int32_t matrices, rows, stages;  // rows of a matrix
  int32_t pieces;                  // columns of a slot
  bool gated;
};

template <bool kFp8, int kMost, bool kGather>
struct Grouping {
  using F = GroupedForm<kFp8, kMost>;
  static constexpr int kEach = kMost / 16, kScaleEach = (kMost + kGroup - 1) / kGroup;
  const GroupedArguments& a;
  uint8_t* ring;
  float (*scales)[F::kScales > 0 ? F::kScales : 1];
  uint64_t *full, *empty;
  int tiles;

  __device__ int row_blocks() const { return a.rows / F::kRows; }
  __device__ Group group_of(int tile) const { return tile < tiles ? a.groups[tile / row_blocks()] : Group{}; }

  // Where a tile's weights are.
  struct Place {
    const CUtensorMap* map;
    int third, fourth;  // coordinates
    int matrix;         // within its source
    const GroupedSource* source;
  };
  __device__ Place place_of(const Group& group, int rows) const {
    const bool behind = group.matrix == a.matrices;
    const GroupedSource* source = &a.sources[behind];
    const int matrix = behind ? 0 : group.matrix, at = rows * (F::kRows / 16);
    return {&source->map, a.gated ? at : 0, a.gated ? matrix : matrix * (a.rows / 16) + at, matrix, source};
  }
  // One thread asks for a stage's weights; gated: eights of rows of gate and of up in turn.
  __device__ void copy_weights(const Place& place, int stage, int at) const {
    barrier_expect(full + at, F::kWeights);
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %6, %6, %4, "
        "%5}], [%2];" ::"r"(shared_address(ring + at * F::kStage)),
        "l"(place.map), "r"(shared_address(full + at)), "r"(stage * F::kColumns), "r"(place.third), "r"(place.fourth),
        "r"(0)
        : "memory");
#endif
  }
  // One thread asks for the rows of x of `columns` columns, which follow each other.
  __device__ void copy_rows(int first, int columns, int stage, int at) const {
    const int boxes = (columns + F::kBoxRows - 1) / F::kBoxRows;
    barrier_expect(full + at, boxes * F::kBoxRows * 128);
    for (int box = 0; box < boxes; ++box)
      copy_box(ring + at * F::kStage + F::kWeights + box * F::kBoxRows * 128, &a.x_map, stage * 128,
               first + box * F::kBoxRows, full + at);
  }
  __device__ static void copy_box(void* to, const CUtensorMap* map, int column, int row, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row)
        : "memory");
#endif
  }
  __device__ static void copy_scale(float* to, const float* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
  }
  // Of the first stage's weights: four, of each group of warps' first and second rows in turn (gate and up).
  __device__ const float* weight_scale(const Place& place, int rows, int which) const {
    const int warps = which / 2 % 2, half = which % 2;
    const int row = a.gated ? half * (a.rows / 2) + rows * 64 + warps * 32 : rows * 128 + warps * 64;
    const GroupedSource& source = *place.source;
    return source.scales + (int64_t{place.matrix} * source.scale_rows + row / source.block_rows) * source.scale_columns;
  }

  // Rows of x of this thread's columns, whose number is `first` and every `kStep` after it.
  template <int kCount, int kStep>
  __device__ void find_rows(uint32_t (&rows)[kCount], const Group& group, int first) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int column = first + j * kStep, slot = a.pieces == 2 ? column / 2 : column;
      if (slot < group.count)
        rows[j] = a.pieces == 2 ? 2 * a.rows_of_x[group.first + slot] + column % 2 : a.rows_of_x[group.first + slot];
    }
  }

  // The copying group, where rows of x are gathered. What a stage costs each thread is as little as can be: all that
  // does not change within a tile is found before.
  __device__ void gather_all() const {
    const int piece = threadIdx.x % 8, first = threadIdx.x / 8;
    const uint32_t own = shared_address(ring) + F::kWeights + swizzled(first, piece);
    const auto x_bytes = static_cast<uint32_t>(a.x_bytes);
    uint32_t rows[kEach] = {}, next[kEach] = {}, scale_rows[kScaleEach] = {}, next_scale_rows[kScaleEach] = {};
    int at = 0;
    uint32_t parity = 1;
    Group group = group_of(blockIdx.x), coming = group_of(blockIdx.x + gridDim.x);
    find_rows<kEach, 16>(rows, group, first);
    if constexpr (kFp8) find_rows<kScaleEach, kGroup>(scale_rows, group, threadIdx.x);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const Group after = group_of(tile + 2 * gridDim.x);
      find_rows<kEach, 16>(next, coming, first);
      if constexpr (kFp8) find_rows<kScaleEach, kGroup>(next_scale_rows, coming, threadIdx.x);
      const int block = tile % row_blocks(), columns = group.count * a.pieces;
      const int each = (columns - first + 15) / 16;  // columns of this thread
      const Place place = place_of(group, block);
      const float* of_weights = kFp8 ? weight_scale(place, block, threadIdx.x) : nullptr;
      const float* of_x = a.x_scales;
      uint32_t offsets[kEach];
#pragma unroll
      for (int j = 0; j < kEach; ++j) offsets[j] = rows[j] * x_bytes + piece * 16;
      for (int stage = 0; stage < a.stages; ++stage) {
        barrier_wait(empty + at, parity);
        if (threadIdx.x == kGroup - 1) copy_weights(place, stage, at);
        const uint32_t to = own + at * F::kStage;
        const uint8_t* from = a.x + stage * 128;
#pragma unroll
        for (int j = 0; j < kEach; ++j)
          if (j < each)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + j * 2048), "l"(from + offsets[j])
                         : "memory");
        if constexpr (kFp8) {
#pragma unroll
          for (int j = 0; j < kScaleEach; ++j) {
            const int column = threadIdx.x + j * kGroup;
            if (column < columns) copy_scale(scales[at] + column, of_x + scale_rows[j]);
          }
          if (threadIdx.x < 4) copy_scale(scales[at] + kMost + threadIdx.x, of_weights + stage);
          of_x += a.x_rows;
        }
        arrive_when_copied(full + at);
        if (++at == F::kStages) at = 0, parity ^= 1;
      }
      group = coming, coming = after;
#pragma unroll
      for (int j = 0; j < kEach; ++j) rows[j] = next[j];
#pragma unroll
      for (int j = 0; j < kScaleEach; ++j) scale_rows[j] = next_scale_rows[j];
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  // Arrives at the barrier when what this thread asked for is there.
  __device__ static void arrive_when_copied(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
  }

  // The copying group, where rows of x follow each other: one warp asks for weights, one for rows of x, one for scales.
  __device__ void copy_all() const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp > (kFp8 ? 2 : 1) || (warp < 2 && lane > 0)) return;
    int at = 0;
    uint32_t parity = 1;
    Group group = group_of(blockIdx.x);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const Group coming = group_of(tile + gridDim.x);
      const int block = tile % row_blocks(), columns = group.count * a.pieces, first = group.first * a.pieces;
      const Place place = place_of(group, block);
      const float* of_weights = kFp8 ? weight_scale(place, block, lane) : nullptr;
      const float* of_x = a.x_scales + first;
      for (int stage = 0; stage < a.stages; ++stage) {
        barrier_wait(empty + at, parity);
        if (warp == 0) {
          copy_weights(place, stage, at);
        } else if (warp == 1) {
          copy_rows(first, columns, stage, at);
        } else if constexpr (kFp8) {
          for (int i = lane; i < columns; i += 32) copy_scale(scales[at] + i, of_x + i);
          if (lane < 4) copy_scale(scales[at] + kMost + lane, of_weights + stage);
          of_x += a.x_rows;
          arrive_when_copied(full + at);
        }
        if (++at == F::kStages) at = 0, parity ^= 1;
      }
      group = coming;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
  }

  // A multiplying group: one tile.
  template <int kSlots>
  __device__ __forceinline__ void multiply(const Group& group, int rows, int& at, uint32_t& parity) const {
    constexpr int kSums = kSlots / 2;
    const int warps = threadIdx.x / kGroup - 1;
    float sums[F::kBlocks][kSums], fresh[kFp8 ? kSums : 1];
#pragma unroll
    for (int b = 0; b < F::kBlocks; ++b)
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[b][i] = 0;
#pragma unroll
    for (int i = 0; i < (kFp8 ? kSums : 1); ++i) fresh[i] = 0;
    int before = 0;
    for (int stage = 0; stage < a.stages; ++stage) {
      barrier_wait(full + at, parity);
      if (kGather) publish_to_copies();  // the tensor cores see what other threads copied
      const uint8_t* here = ring + at * F::kStage;
      const uint64_t x = operand_at(shared_address(here + F::kWeights), 16);
      begin_products();
#pragma unroll
      for (int b = 0; b < F::kBlocks; ++b) {
        const uint64_t w = operand_at(shared_address(here + (warps * F::kBlocks + b) * kMapBytes), 16);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (kFp8)
            SharedProduct<kSlots, true>::add(fresh, w + 2 * i, x + 2 * i, i > 0);
          else
            SharedProduct<kSlots, false>::add(sums[b], w + 2 * i, x + 2 * i, true);
        }
      }
      commit_products();
      if constexpr (kFp8) {
        wait_products<0>();
        settle(fresh);
        add_scaled<kSlots>(sums[0], fresh, scales[at], warps);
        if (threadIdx.x % kGroup == 0) barrier_arrive(empty + at);
      } else if (stage > 0) {  // the products of the stage before are done
        wait_products<1>();
        if (threadIdx.x % kGroup == 0) barrier_arrive(empty + before);
      }
      before = at;
      if (++at == F::kStages) at = 0, parity ^= 1;
    }
    if constexpr (!kFp8) {
      wait_products<0>();
#pragma unroll
      for (int b = 0; b < F::kBlocks; ++b) settle(sums[b]);
      if (threadIdx.x % kGroup == 0) barrier_arrive(empty + before);
    }
#pragma unroll
    for (int b = 0; b < F::kBlocks; ++b) {
      const int tile = rows * 2 * F::kBlocks + warps * F::kBlocks + b;
      if (kFp8 && a.pieces == 2)
        store_joined<kSlots>(sums[b], group, tile);
      else
        store<kSlots>(sums[b], group, tile);
    }
  }
  template <int kSlots>
  __device__ __forceinline__ void add_scaled(float (&sums)[kSlots / 2], const float (&fresh)[kSlots / 2],
                                             const float* of_stage, int warps) const {
    const float first = of_stage[kMost + 2 * warps], second = of_stage[kMost + 2 * warps + 1];
#pragma unroll
    for (int j = 0; j < kSlots / 8; ++j) {
      const float2 of_x = *reinterpret_cast<const float2*>(of_stage + 8 * j + threadIdx.x % 4 * 2);
      sums[4 * j] += first * of_x.x * fresh[4 * j];
      sums[4 * j + 1] += first * of_x.y * fresh[4 * j + 1];
      sums[4 * j + 2] += second * of_x.x * fresh[4 * j + 2];
      sums[4 * j + 3] += second * of_x.y * fresh[4 * j + 3];
    }
  }
  // The first of this thread's outputs, of a tile's 64 rows of sums: two (gated) or four neighbours.
  __device__ int first_output(int tile) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    return a.gated ? tile * 32 + warp * 8 + lane % 4 * 2 : tile * 64 + warp * 16 + lane % 4 * 4;
  }
  // The sums of two slots for rows of the first and of the second eight of sixteen become one slot's outputs.
  __device__ __forceinline__ void put_outputs(__nv_bfloat16* to, const float (&low)[2], const float (&high)[2],
                                              bool there) const {
    if (a.gated) {
      const uint32_t pair = transposed(quick_silu(low[0]) * high[0], quick_silu(low[1]) * high[1]);
      if (there) *reinterpret_cast<uint32_t*>(to) = pair;
    } else {
      const uint2 four{transposed(low[0], low[1]), transposed(high[0], high[1])};
      if (there) *reinterpret_cast<uint2*>(to) = four;
    }
  }
  template <int kSlots>
  __device__ __forceinline__ void store(const float (&sums)[kSlots / 2], const Group& group, int tile) const {
    const int column = static_cast<int>(threadIdx.x) % 32 / 4;
    auto* out = static_cast<__nv_bfloat16*>(a.out.data) + (group.first + column) * a.out.stride[0] + first_output(tile);
#pragma unroll
    for (int j = 0; j < kSlots / 8; ++j, out += 8 * a.out.stride[0]) {
      const float* s = sums + 4 * j;
      put_outputs(out, {s[0], s[1]}, {s[2], s[3]}, 8 * j + column < group.count);
    }
  }
  // The same of slots with two columns, which are added: four slots of one eight of columns and four of the next.
  template <int kSlots>
  __device__ __forceinline__ void store_joined(const float (&sums)[kSlots / 2], const Group& group, int tile) const {
    const int column = static_cast<int>(threadIdx.x) % 32 / 4, slot = column % 2 * 4 + column / 2;  // of an eight
    auto* out = static_cast<__nv_bfloat16*>(a.out.data) + (group.first + slot) * a.out.stride[0] + first_output(tile);
#pragma unroll
    for (int j = 0; j < kSlots / 8; j += 2, out += 8 * a.out.stride[0]) {
      float low[2] = {}, high[2] = {};  // of both eights
#pragma unroll
      for (int i = 0; i < 2 && j + i < kSlots / 8; ++i) {
        const float* s = sums + 4 * (j + i);
        low[i] = s[0] + s[1], high[i] = s[2] + s[3];
      }
      put_outputs(out, low, high, 4 * j + slot < group.count);
    }
  }
  __device__ static uint32_t transposed(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    uint32_t out;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(*reinterpret_cast<const uint32_t*>(&both)));
    return out;
  }
  __device__ static float quick_silu(float x) { return __fdividef(x, 1 + __expf(-x)); }

  __device__ void multiply_all() const {
    int at = 0;
    uint32_t parity = 0;
    Group group = group_of(blockIdx.x);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const Group coming = group_of(tile + gridDim.x);
      const int rows = tile % row_blocks(), columns = group.count * a.pieces;
      if constexpr (kMost == kFewColumns) {
        if (columns > 16)
          multiply<32>(group, rows, at, parity);
        else if (columns > 8)
          multiply<16>(group, rows, at, parity);
        else
          multiply<8>(group, rows, at, parity);
      } else {
        if (columns > 144)
          multiply<160>(group, rows, at, parity);
        else if (columns > 128)
          multiply<144>(group, rows, at, parity);
        else if (columns > 112)
          multiply<128>(group, rows, at, parity);
        else if (columns > 96)
          multiply<112>(group, rows, at, parity);
        else if (columns > 64)
          multiply<96>(group, rows, at, parity);
        else if (columns > 32)
          multiply<64>(group, rows, at, parity);
        else
          multiply<32>(group, rows, at, parity);
      }
      group = coming;
    }
  }
};

}  // namespace braid::cuda
