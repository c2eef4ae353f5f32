// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/grouped.h"

#include "cuda/common/start.h"
#include "cuda/experts/grouped_kernel.h"

namespace braid::cuda {
namespace {

template <bool kFp8, int kMost, bool kGather>
__global__ void __launch_bounds__(kGroupedThreads, 1) grouped_kernel(const __grid_constant__ GroupedArguments a) {
  using F = GroupedForm<kFp8, kMost>;
  using G = Grouping<kFp8, kMost, kGather>;
  extern __shared__ __align__(1024) uint8_t memory[];
  auto* full = reinterpret_cast<uint64_t*>(memory + F::kStages * F::kStage);
  auto* scales = reinterpret_cast<decltype(G::scales)>(full + 2 * F::kStages);
  if (threadIdx.x == 0) {
    for (int i = 0; i < F::kStages; ++i) {
      barrier_init(full + i, kGather ? kGroup + 1 : kFp8 ? 34 : 2);
      barrier_init(full + F::kStages + i, 2);
    }
    barriers_made();
  }
  await_then_allow();
  const G grouping{a, memory, scales, full, full + F::kStages, *a.group_count * (a.rows / F::kRows)};
  __syncthreads();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (threadIdx.x < kGroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(F::kCopyRegisters));
    if constexpr (kGather)
      grouping.gather_all();
    else
      grouping.copy_all();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(F::kProductRegisters));
    grouping.multiply_all();
  }
#endif
}

template <bool kFp8, int kMost>
void run(Context& context, const GroupedArguments& arguments) {
  using F = GroupedForm<kFp8, kMost>;
  auto* kernel =
      arguments.rows_of_x != nullptr ? grouped_kernel<kFp8, kMost, true> : grouped_kernel<kFp8, kMost, false>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, F::kBytes), "shared memory");
  start(context, kernel,
        {.grid = static_cast<unsigned>(context.multiprocessors()), .block = kGroupedThreads, .shared = F::kBytes},
        arguments);
}

GroupedSource source_of(const Codes& codes, bool gated) {
  const int rows =
      codes.coding == Coding::Fp8 ? GroupedForm<true, kManyColumns>::kRows : GroupedForm<false, kManyColumns>::kRows;
  const std::optional<CUtensorMap> map = gated ? paired_weight_map(codes, rows) : spread_weight_map(codes, rows);
  CHECK(map, "the driver makes no map of weights");
  return {*map, codes.scales, codes.scale_columns, codes.scale_rows, codes.block_rows};
}

}  // namespace

bool grouped_takes(const Context& context, const Codes& codes, bool gated) {
  if (!context.hopper() || !context.fast()) return false;
  const bool fp8 = codes.coding == Coding::Fp8;
  if (fp8 && (codes.block_columns != 128 || codes.block_rows % 64 != 0)) return false;
  if (!fp8 && codes.coding != Coding::BF16) return false;
  const int64_t rows = fp8 ? GroupedForm<true, kManyColumns>::kRows : GroupedForm<false, kManyColumns>::kRows;
  return codes.rows % rows == 0 && codes.columns % 128 == 0 && reinterpret_cast<uintptr_t>(codes.data) % 16 == 0 &&
         (!gated || codes.rows / 2 % 32 == 0);
}

void multiply_grouped(Context& context, const GroupedProduct& p) {
  const Codes& codes = *p.codes;
  const bool fp8 = codes.coding == Coding::Fp8, many = p.most_columns == kManyColumns;
  CHECK(p.out.bf16);
  CHECK(p.x.rows * p.x.pieces * p.x.bytes < int64_t{1} << 32, "{} rows of x", p.x.rows);
  GroupedArguments arguments{.out = p.out,
                             .x = p.x.data,
                             .x_scales = p.x.scales,
                             .rows_of_x = p.rows,
                             .x_bytes = p.x.bytes,
                             .x_rows = p.x.rows * p.x.pieces,
                             .groups = p.groups,
                             .group_count = p.group_count,
                             .matrices = static_cast<int32_t>(codes.count),
                             .rows = static_cast<int32_t>(codes.rows),
                             .stages = static_cast<int32_t>(codes.columns / (fp8 ? 128 : 64)),
                             .pieces = p.x.pieces,
                             .gated = p.gated};
  arguments.sources[0] = source_of(codes, p.gated);
  arguments.sources[1] = p.shared != nullptr ? source_of(*p.shared, p.gated) : arguments.sources[0];
  if (p.rows == nullptr) {
    const std::optional<CUtensorMap> map = rows_map(p.x.data, arguments.x_rows, p.x.bytes, many ? 32 : 8);
    CHECK(map, "the driver makes no map of rows");
    arguments.x_map = *map;
  }
  if (many)
    fp8 ? run<true, kManyColumns>(context, arguments) : run<false, kManyColumns>(context, arguments);
  else
    fp8 ? run<true, kFewColumns>(context, arguments) : run<false, kFewColumns>(context, arguments);
}

}  // namespace braid::cuda
