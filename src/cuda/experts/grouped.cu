// One group of four warps brings weights (the copy engine) and rows of x (gathered, 16 bytes a thread) into a ring of
// stages; two groups multiply, weight rows as rows and slots as columns. A block walks over the tiles of all groups;
// sums go straight from registers to `out`, transposed in pairs of rows. A gated tile holds 8 rows of gate and 8 of up
// in turn, so that a thread has both. Bounded by reading the weights, and by the second-level cache, which every tile's
// rows of x pass.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/grouped.h"

#include <algorithm>

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/common/tensor_map.h"
#include "cuda/common/warp_group.h"
#include "cuda/linear/shared_products_many.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 384, kGroup = 128, kTileBytes = 8192;  // of 64 rows of 128 bytes
constexpr int kLists = 3;  // slots of the tiles that are under way: the copying group is at most one ring ahead

template <bool kFp8>
struct Form {
  static constexpr int kBlocks = kFp8 ? 1 : 2;  // of 64 weight rows that a group of warps multiplies
  static constexpr int kRows = 2 * 64 * kBlocks, kColumns = kFp8 ? 128 : 64, kStages = kFp8 ? 5 : 4;
  static constexpr int kWeights = 2 * kBlocks * kTileBytes, kSlots = kWideColumns * 128;
  static constexpr int kScales = kFp8 ? 1024 : 0;  // of the stage's slots, then of its weight rows
  static constexpr int kStage = kWeights + kSlots + kScales;
};

struct Arguments {
  CUtensorMap map;
  View out;
  const uint8_t* x;
  int64_t x_bytes;        // of a row
  const float* x_scales;  // [stages, rows of x]
  int64_t x_scale_stride;
  int64_t rest_rows;  // from the row of a first code to that of its second
  const float* scales;
  int32_t scale_columns, scale_rows, block_rows;
  const int32_t* list;
  const Group* groups;
  const int32_t* group_count;
  int32_t divide, rows, stages;  // rows of a matrix
  int32_t pieces;                // columns of a slot
  bool gated;
};

template <bool kFp8>
struct Grouping {
  using F = Form<kFp8>;
  const Arguments& a;
  uint8_t* ring;
  int32_t (*lists)[kWideColumns];
  uint64_t *full, *empty;

  __device__ int row_blocks() const { return a.rows / F::kRows; }

  // The copying group.
  __device__ void copy_all(int tiles) const {
    int at = 0, list = 0, waiting = -1;
    uint32_t parity = 1;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, list = (list + 1) % kLists) {
      const Group group = a.groups[tile / row_blocks()];
      const int rows = tile % row_blocks();
      for (int i = threadIdx.x; i < group.count; i += kGroup) lists[list][i] = a.list[group.first + i];
      asm volatile("bar.sync 1, 128;" ::: "memory");
      for (int stage = 0; stage < a.stages; ++stage) {
        barrier_wait(empty + at, parity);
        uint8_t* to = ring + at * F::kStage;
        if (threadIdx.x == 0) copy_weights(to, group.matrix, rows, stage, full + at);
        copy_slots(to + F::kWeights, lists[list], group.count, stage);
        if constexpr (kFp8) copy_scales(to + F::kWeights + F::kSlots, lists[list], group, rows, stage);
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (waiting >= 0) {  // one stage behind, whose copies have had time
          asm volatile("cp.async.wait_group 1;" ::: "memory");
          publish_to_copies();
          barrier_arrive(full + waiting);
        }
        waiting = at;
        if (++at == F::kStages) at = 0, parity ^= 1;
      }
    }
    if (waiting < 0) return;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    publish_to_copies();
    barrier_arrive(full + waiting);
  }
  __device__ void copy_weights(uint8_t* to, int matrix, int rows, int stage, uint64_t* barrier) const {
    constexpr int kTiles = 2 * F::kBlocks;
    barrier_expect(barrier, F::kWeights);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int tile = rows * kTiles + i;
#if __CUDA_ARCH__ >= 900
      if (a.gated)  // 32 rows of gate and of up: four times 8 of each
        asm volatile(
            "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %6, %6, %4, "
            "%5}], "
            "[%2];" ::"r"(shared_address(to + i * kTileBytes)),
            "l"(&a.map), "r"(shared_address(barrier)), "r"(stage * F::kColumns), "r"(tile * 4), "r"(matrix), "r"(0)
            : "memory");
      else
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
                "r"(shared_address(to + i * kTileBytes)),
            "l"(&a.map), "r"(shared_address(barrier)), "r"(stage * F::kColumns), "r"(matrix * a.rows + tile * 64)
            : "memory");
#endif
    }
  }
  __device__ void copy_slots(uint8_t* to, const int32_t* list, int count, int stage) const {
    const int piece = threadIdx.x % 8;
    const uint8_t* from = a.x + stage * 128 + piece * 16;
#pragma unroll 4
    for (int i = threadIdx.x / 8; i < count * a.pieces; i += kGroup / 8)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + swizzled(i, piece))),
                   "l"(from + row_of_x(list, i) * a.x_bytes)
                   : "memory");
  }
  // Of column i: a slot's second code follows its first.
  __device__ int64_t row_of_x(const int32_t* list, int i) const {
    if (a.pieces == 1) return list[i] / a.divide;
    return list[i / 2] / a.divide + i % 2 * a.rest_rows;
  }
  // Scales of the slots, then of each group's first and second rows in turn (gate and up).
  __device__ void copy_scales(uint8_t* to, const int32_t* list, const Group& group, int rows, int stage) const {
    auto* scales = reinterpret_cast<float*>(to);
    const auto copy = [](float* at, const float* from) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(at)), "l"(from) : "memory");
    };
    for (int i = threadIdx.x; i < group.count * a.pieces; i += kGroup)
      copy(scales + i, a.x_scales + stage * a.x_scale_stride + row_of_x(list, i));
    if (threadIdx.x >= 4) return;
    const int warps = static_cast<int>(threadIdx.x) / 2, half = threadIdx.x % 2;
    const int row = a.gated ? half * (a.rows / 2) + rows * 64 + warps * 32 : rows * 128 + warps * 64;
    const int64_t block = int64_t{group.matrix} * a.scale_rows + row / a.block_rows;
    copy(scales + kWideColumns + threadIdx.x, a.scales + block * a.scale_columns + stage);
  }

  // A multiplying group: one tile.
  template <int kSlots>
  __device__ __forceinline__ void multiply(const Group& group, int rows, const int32_t* list, int& at,
                                           uint32_t& parity) const {
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
      const uint8_t* here = ring + at * F::kStage;
      const uint64_t x = operand_at(shared_address(here + F::kWeights), 16);
      begin_products();
#pragma unroll
      for (int b = 0; b < F::kBlocks; ++b) {
        const uint64_t w = operand_at(shared_address(here + (warps * F::kBlocks + b) * kTileBytes), 16);
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
        add_scaled<kSlots>(sums[0], fresh, reinterpret_cast<const float*>(here + F::kWeights + F::kSlots), warps);
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
        store_joined<kSlots>(sums[b], group.count, list, tile);
      else
        store<kSlots>(sums[b], group.count, list, tile);
    }
  }
  template <int kSlots>
  __device__ __forceinline__ void add_scaled(float (&sums)[kSlots / 2], const float (&fresh)[kSlots / 2],
                                             const float* scales, int warps) const {
    const float first = scales[kWideColumns + 2 * warps], second = scales[kWideColumns + 2 * warps + 1];
#pragma unroll
    for (int j = 0; j < kSlots / 8; ++j) {
      const float2 of_x = *reinterpret_cast<const float2*>(scales + 8 * j + threadIdx.x % 4 * 2);
      sums[4 * j] += first * of_x.x * fresh[4 * j];
      sums[4 * j + 1] += first * of_x.y * fresh[4 * j + 1];
      sums[4 * j + 2] += second * of_x.x * fresh[4 * j + 2];
      sums[4 * j + 3] += second * of_x.y * fresh[4 * j + 3];
    }
  }
  // Stores 64 rows of sums (gated: 32 of outputs). Pairs of neighbouring slots are transposed to pairs of outputs.
  template <int kSlots>
  __device__ __forceinline__ void store(const float (&sums)[kSlots / 2], int count, const int32_t* list,
                                        int tile) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = (a.gated ? tile * 32 + warp * 8 : tile * 64 + warp * 16) + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kSlots / 8; ++j) {
      const float* s = sums + 4 * j;
      const uint32_t first =
          a.gated ? transposed(quick_silu(s[0]) * s[2], quick_silu(s[1]) * s[3]) : transposed(s[0], s[1]);
      const uint32_t second = a.gated ? 0 : transposed(s[2], s[3]);
      const int column = 8 * j + lane / 4;
      if (column >= count) continue;
      auto* out =
          reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(a.out.data) + list[column] * a.out.stride[0] + row);
      out[0] = first;
      if (!a.gated) out[4] = second;
    }
  }
  // The same of slots with two columns, which are added.
  template <int kSlots>
  __device__ __forceinline__ void store_joined(const float (&sums)[kSlots / 2], int count, const int32_t* list,
                                               int tile) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = (a.gated ? tile * 32 + warp * 8 : tile * 64 + warp * 16) + lane / 4;
#pragma unroll
    for (int j = 0; j < kSlots / 8; ++j) {
      const int slot = 4 * j + lane % 4;
      if (slot >= count) continue;
      const float first = sums[4 * j] + sums[4 * j + 1], second = sums[4 * j + 2] + sums[4 * j + 3];
      auto* out = static_cast<__nv_bfloat16*>(a.out.data) + list[slot] * a.out.stride[0] + row;
      out[0] = __float2bfloat16_rn(a.gated ? quick_silu(first) * second : first);
      if (!a.gated) out[8] = __float2bfloat16_rn(second);
    }
  }
  __device__ static uint32_t transposed(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    uint32_t out;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(*reinterpret_cast<const uint32_t*>(&both)));
    return out;
  }
  __device__ static float quick_silu(float x) { return __fdividef(x, 1 + __expf(-x)); }

  __device__ void multiply_all(int tiles) const {
    int at = 0, list = 0;
    uint32_t parity = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, list = (list + 1) % kLists) {
      const Group group = a.groups[tile / row_blocks()];
      const int rows = tile % row_blocks();
      const int columns = group.count * a.pieces;
      if (columns > 160)
        multiply<192>(group, rows, lists[list], at, parity);
      else if (columns > 128)
        multiply<160>(group, rows, lists[list], at, parity);
      else if (columns > 96)
        multiply<128>(group, rows, lists[list], at, parity);
      else if (columns > 64)
        multiply<96>(group, rows, lists[list], at, parity);
      else if (columns > 32)
        multiply<64>(group, rows, lists[list], at, parity);
      else
        multiply<32>(group, rows, lists[list], at, parity);
    }
  }
};

template <bool kFp8>
__global__ void __launch_bounds__(kThreads, 1) grouped_kernel(const __grid_constant__ Arguments a) {
  using F = Form<kFp8>;
  extern __shared__ __align__(1024) uint8_t memory[];
  auto* lists = reinterpret_cast<int32_t(*)[kWideColumns]>(memory + F::kStages * F::kStage);
  auto* full = reinterpret_cast<uint64_t*>(lists + kLists);
  uint64_t* empty = full + F::kStages;
  await_earlier();
  const Grouping<kFp8> grouping{a, memory, lists, full, empty};
  if (threadIdx.x == 0) {
    for (int i = 0; i < F::kStages; ++i) barrier_init(full + i, kGroup + 1), barrier_init(empty + i, 2);
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __syncthreads();
  const int tiles = *a.group_count * grouping.row_blocks();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (threadIdx.x < kGroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    grouping.copy_all(tiles);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    grouping.multiply_all(tiles);
  }
#endif
}

template <bool kFp8>
void run(Context& context, const Arguments& arguments) {
  using F = Form<kFp8>;
  constexpr int kBytes = F::kStages * F::kStage + kLists * kWideColumns * 4 + F::kStages * 16;
  check(cudaFuncSetAttribute(grouped_kernel<kFp8>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory");
  const auto blocks = static_cast<unsigned>(context.multiprocessors());
  start(context, grouped_kernel<kFp8>, {.grid = blocks, .block = kThreads, .shared = kBytes}, arguments);
}

}  // namespace

bool grouped_takes(const Context& context, const Codes& codes, bool gated) {
  if (!context.hopper() || !context.fast()) return false;
  const bool fp8 = codes.coding == Coding::Fp8;
  if (fp8 && (codes.block_columns != 128 || codes.block_rows % 64 != 0)) return false;
  if (!fp8 && codes.coding != Coding::BF16) return false;
  // A tile has at least as many stages as the ring, so that no more than kLists tiles are under way.
  const int64_t rows = fp8 ? Form<true>::kRows : Form<false>::kRows;
  const int64_t columns = fp8 ? Form<true>::kColumns : Form<false>::kColumns;
  const int64_t stages = fp8 ? Form<true>::kStages : Form<false>::kStages;
  return codes.rows % rows == 0 && codes.columns % columns == 0 && 2 * codes.columns >= stages * columns &&
         (!gated || codes.rows % (2 * rows) == 0 || codes.rows / 2 % 32 == 0);
}

void multiply_grouped(Context& context, const GroupedProduct& grouped) {
  const Product& p = grouped.product;
  const bool fp8 = p.codes.coding == Coding::Fp8;
  const std::optional<CUtensorMap> map = p.gated ? paired_weight_map(p.codes) : weight_map(p.codes);
  CHECK(map && p.out.bf16, "the driver makes no map of weights");
  const Arguments arguments{
      .map = *map,
      .out = p.out,
      .x = fp8 ? grouped.x.codes : static_cast<const uint8_t*>(p.x.data),
      .x_bytes = fp8 ? p.codes.columns : p.x.stride[0] * 2,
      .x_scales = grouped.x.scales,
      .x_scale_stride = grouped.x.tokens * grouped.x.pieces,
      .rest_rows = grouped.x.tokens,
      .scales = p.codes.scales,
      .scale_columns = p.codes.scale_columns,
      .scale_rows = p.codes.scale_rows,
      .block_rows = p.codes.block_rows,
      .list = p.list,
      .groups = p.groups,
      .group_count = p.group_count,
      .divide = p.divide,
      .rows = static_cast<int32_t>(p.codes.rows),
      .stages = static_cast<int32_t>(p.codes.columns / (fp8 ? Form<true>::kColumns : Form<false>::kColumns)),
      .pieces = fp8 ? grouped.x.pieces : 1,
      .gated = p.gated};
  fp8 ? run<true>(context, arguments) : run<false>(context, arguments);
}

}  // namespace braid::cuda
