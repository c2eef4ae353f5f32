// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/few.h"

#include <algorithm>
#include <numeric>

#include "cuda/common/start.h"
#include "cuda/experts/few_kernel.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMemory = int64_t{226} << 10;  // of a block

template <Coding kCoding>
__global__ void __launch_bounds__(kFewThreads, 1) few_kernel(const __grid_constant__ Few s) {
  using F = Fewer<kCoding>;
  extern __shared__ uint8_t memory[];
  __shared__ uint64_t full[kMostRing], empty[kMostRing];
  __shared__ float scales[kMostRing][F::kScales], partial[2][kWarps][kTileRows];
  __shared__ int32_t experts[kFewRows * 32];
  uint8_t* ring = memory + (1024 - shared_address(memory) % 1024) % 1024;
  const F few{s, ring, scales, full, empty, ring + s.ring * F::kSlot, partial, experts};
  if (threadIdx.x == 0) {
    for (int i = 0; i < s.ring; ++i)
      barrier_init(full + i, F::C::kRowScales > 0 ? 33 : 1), barrier_init(empty + i, kWarps);
    barriers_made();
  }
  __syncthreads();
  await_then_allow();
  if (threadIdx.x >= kWarps * 32)
    few.copy_all(threadIdx.x % 32);
  else
    few.multiply_all();
}

bool usable(const Codes& codes) {
  return codes.coding == Coding::Nvfp4 && codes.columns % 256 == 0 && codes.rows % 16 == 0 &&
         reinterpret_cast<uintptr_t>(codes.data) % 16 == 0;
}

template <Coding kCoding>
struct Plan {
  using C = ChunkProduct<kCoding>;
  Few few{};
  unsigned blocks = 0;
  size_t shared = 0;

  static int32_t chunks(int64_t columns) { return static_cast<int32_t>(columns / C::kColumns); }
  // Most chunks that divide all of these.
  static int32_t common(int32_t a, int32_t b) { return std::gcd(std::gcd(a, b), kUnit); }
  static FewMatrices matrices(const Weight& weight, bool gated, int32_t box) {
    const Codes& codes = codes_of(weight);
    SixteenRows of{.data = codes.data,
                   .row_bytes = codes.columns / C::kColumns * kChunk,
                   .apart = gated ? codes.rows / 2 : 8,
                   .tile_rows = gated ? 8 : kTileRows,
                   .piece_bytes = kChunk,
                   .pieces = box};
    of.tiles = codes.count * codes.rows / of.tile_rows;
    FewMatrices out{.scales = codes.scales,
                    .scale_rows = codes.scale_rows,
                    .scale_columns = codes.scale_columns,
                    .block_rows = codes.block_rows,
                    .tiles = static_cast<int32_t>(codes.rows / of.tile_rows),
                    .apart = static_cast<int32_t>(of.apart),
                    .box = box};
    const std::optional<CUtensorMap> map = sixteen_map(of);
    CHECK(map, "the driver makes no map of weights");
    out.map = *map;
    if constexpr (C::kGroupBytes > 0) {
      of.data = codes.groups, of.row_bytes = codes.columns / 16, of.piece_bytes = C::kGroupBytes;
      const std::optional<CUtensorMap> groups = sixteen_map(of);
      CHECK(groups, "the driver makes no map of groups");
      out.group_map = *groups;
    }
    return out;
  }
  Plan(const Context& context, const Experts& op) {
    const bool shared_expert = op.shared_gate_up != nullptr;
    const int64_t inner = codes_of(*op.down).columns, k = op.chosen.width();
    const int64_t shared_inner = shared_expert ? codes_of(*op.shared_down).columns : 0;
    few.x = view(op.x), few.out = view(op.out), few.weights = view(op.weights), few.shared_gate = view(op.shared_gate);
    few.chosen = op.chosen.as<int32_t>(), few.chosen_stride = op.chosen.stride(0);
    few.tokens = static_cast<int32_t>(op.x.rows()), few.k = static_cast<int32_t>(k);
    few.hidden_width = static_cast<int32_t>(k * inner + shared_inner);
    few.chunks = chunks(op.x.width()), few.slot_chunks = chunks(inner), few.shared_chunks = chunks(shared_inner);
    few.slot_tiles = static_cast<int32_t>(inner / 8), few.shared_tiles = static_cast<int32_t>(shared_inner / 8);
    few.out_tiles = static_cast<int32_t>(op.x.width() / kTileRows);
    blocks = static_cast<unsigned>(context.multiprocessors());
    const int64_t held_rows = std::min<int64_t>(few.tokens, few.tokens / static_cast<int64_t>(blocks) + 2);
    const int64_t inputs =
        few.tokens * C::input_bytes(few.chunks) + held_rows * C::input_bytes(chunks(few.hidden_width));
    few.ring = static_cast<int32_t>(std::min<int64_t>((kMemory - 11264 - inputs) / Fewer<kCoding>::kSlot, kMostRing));
    shared = static_cast<size_t>(few.ring * int64_t{Fewer<kCoding>::kSlot} + inputs + 1024);
  }
  void find_matrices(const Experts& op) {
    const int32_t of_x = common(few.chunks, 0), of_hidden = common(few.slot_chunks, few.shared_chunks);
    few.gate_up[0] = matrices(*op.gate_up, true, of_x), few.down[0] = matrices(*op.down, false, of_hidden);
    if (op.shared_gate_up == nullptr) return;
    few.gate_up[1] = matrices(*op.shared_gate_up, true, of_x);
    few.down[1] = matrices(*op.shared_down, false, of_hidden);
  }
};

template <Coding kCoding>
void run(Context& context, const Experts& op) {
  Plan<kCoding> plan(context, op);
  plan.find_matrices(op);
  plan.few.hidden = context.take<float>(int64_t{plan.few.tokens} * plan.few.hidden_width);
  plan.few.flags = context.flags() + Context::kFlags - 2;
  check(cudaFuncSetAttribute(few_kernel<kCoding>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(plan.shared)),
        "shared memory");
  start(context, few_kernel<kCoding>, {.grid = plan.blocks, .block = kFewThreads, .shared = plan.shared}, plan.few);
}

}  // namespace

bool experts_few(const Context& context, const Experts& op) {
  if (!context.hopper() || !context.fast() || op.x.rows() > kFewRows || op.chosen.width() > 32) return false;
  const View x = view(op.x);
  if (reinterpret_cast<uintptr_t>(x.data) % 16 != 0 || (op.x.rows() > 1 && x.stride[0] * (x.bf16 ? 2 : 4) % 16 != 0))
    return false;
  for (const Weight* weight : {op.gate_up, op.down, op.shared_gate_up, op.shared_down})
    if (weight != nullptr && !usable(codes_of(*weight))) return false;
  constexpr int32_t kFewestStages = 3;
  return Plan<Coding::Nvfp4>(context, op).few.ring >= kFewestStages;
}

void compute_few(Context& context, const Experts& op) { run<Coding::Nvfp4>(context, op); }

}  // namespace braid::cuda
