// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/stream.h"

#include <algorithm>

#include "cuda/experts/stream_kernel.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMemory = int64_t{216} << 10;  // dynamic shared memory of a block at most
constexpr int64_t kFewestStages = 4;  // of the ring, and of a block: fewer cost more in joining than they win

int pieces_of(const Codes& codes) { return codes.coding == Coding::Fp8 ? 2 : 1; }
int32_t stages_of(const Codes& codes) {
  return static_cast<int32_t>(codes.columns / (codes.coding == Coding::Fp8 ? 128 : 64));
}

// Whether a weight has a form for this kernel, on this device; gated: rows of gate, then of up.
bool streams(const Context& context, const Codes& codes, bool gated) {
  if (!context.hopper() || codes.rows == 0) return false;
  const bool fp8 = codes.coding == Coding::Fp8 && codes.block_columns == 128 && codes.block_rows % 64 == 0;
  return (fp8 || codes.coding == Coding::BF16) && codes.columns % 128 == 0 && (!gated || codes.rows % 128 == 0) &&
         reinterpret_cast<uintptr_t>(codes.data) % 16 == 0;
}

StreamSource stream_source(const Codes& codes) {
  const std::optional<CUtensorMap> map = weight_map(codes);
  CHECK(map, "the driver makes no map of weights");
  return {.map = *map,
          .scales = codes.scales,
          .scale_columns = codes.scale_columns,
          .scale_rows = codes.scale_rows,
          .block_rows = codes.block_rows,
          .rows = static_cast<int32_t>(codes.rows)};
}

// Fills in what the launch chooses.
Extents stream_extents(Context& context, Stream& s) {
  const int64_t units = int64_t{s.tiles} * s.stages;
  const int64_t blocks = std::clamp<int64_t>(units / kFewestStages, 1, context.multiprocessors());
  const int64_t held = int64_t{s.x_rows} * s.row_bytes + 4 * int64_t{s.x_rows} * s.stages * kStreamColumns + 128 + 1024;
  s.ring = static_cast<int32_t>(std::clamp<int64_t>((kMemory - held) / kStageBytes, kFewestStages, kStreamRing));
  s.parts = context.take<float>(blocks * kGroups * kGroupThreads * kStreamColumns / 2);
  s.flags = context.flags();
  CHECK(blocks * kGroups <= Context::kFlags);
  return {.grid = static_cast<unsigned>(blocks),
          .block = kStreamThreads,
          .shared = static_cast<size_t>(held + int64_t{s.ring} * kStageBytes)};
}

void launch_stream(Context& context, void (*kernel)(Stream), Stream& stream) {
  const Extents extents = stream_extents(context, stream);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(extents.shared)),
        "shared memory");
  start(context, kernel, extents, stream);
}

Stream common(const Experts& op) {
  Stream s{.tokens = static_cast<int32_t>(op.x.rows())};
  s.chosen = op.chosen.as<int32_t>(), s.chosen_stride = op.chosen.stride(0);
  s.weights = view(op.weights), s.shared_gate = view(op.shared_gate);
  s.k = static_cast<int32_t>(op.chosen.width());
  return s;
}

template <bool kFp8>
void run(Context& context, const Experts& op) {
  const bool shared = op.shared_gate_up != nullptr;
  const Codes &gate_up = codes_of(*op.gate_up), &down = codes_of(*op.down);
  const int64_t tokens = op.x.rows(), k = op.chosen.width();
  const int64_t width = k * down.columns + (shared ? codes_of(*op.shared_down).columns : 0);
  View hidden{.data = context.take<float>(tokens * width), .shape = {tokens, width}, .stride = {width, 1}};

  Stream first = common(op);
  first.x = view(op.x), first.out = hidden, first.stages = stages_of(gate_up);
  first.sources[0] = stream_source(gate_up);
  first.tiles = static_cast<int32_t>(tokens * k * (gate_up.rows / 128));
  first.sources[1].first_tile = first.tiles;
  if (shared) {
    const Codes& codes = codes_of(*op.shared_gate_up);
    first.sources[1] = stream_source(codes);
    first.sources[1].first_tile = first.tiles;
    first.tiles += static_cast<int32_t>(tokens * (codes.rows / 128));
  }
  first.x_rows = static_cast<int32_t>(tokens), first.row_bytes = pieces_of(gate_up) * 128 * first.stages;
  launch_stream(context, stream_kernel<kFp8, StreamMode::Chosen>, first);

  Stream second = common(op);
  second.x = hidden, second.out = view(op.out), second.slot_stages = stages_of(down);
  second.sources[0] = stream_source(down);
  if (shared) second.sources[1] = stream_source(codes_of(*op.shared_down));
  second.stages = static_cast<int32_t>(k * second.slot_stages + (shared ? stages_of(codes_of(*op.shared_down)) : 0));
  second.tiles = static_cast<int32_t>(tokens * (down.rows / 128));
  // A block has at most this many rows of x, since it holds an even share of the stages.
  second.x_rows = static_cast<int32_t>(std::min<int64_t>(tokens, tokens / context.multiprocessors() + 2));
  second.row_bytes = pieces_of(down) * 128 * second.stages;
  launch_stream(context, stream_kernel<kFp8, StreamMode::Joined>, second);
}

}  // namespace

bool experts_stream(const Context& context, const Experts& op) {
  if (!context.fast() || op.x.rows() > kStreamedTokens) return false;
  const View x = view(op.x);
  const int64_t row = x.stride[0] * (x.bf16 ? 2 : 4);
  if (reinterpret_cast<uintptr_t>(x.data) % 16 != 0 || (op.x.rows() > 1 && row % 16 != 0)) return false;
  const Coding coding = codes_of(*op.gate_up).coding;
  for (const Weight* weight : {op.gate_up, op.down, op.shared_gate_up, op.shared_down}) {
    if (weight == nullptr) continue;
    const Codes& codes = codes_of(*weight);
    const bool down = weight == op.down || weight == op.shared_down;
    if (codes.coding != coding || !streams(context, codes, !down) || (down && codes.rows % 128 != 0)) return false;
  }
  constexpr int64_t kMostBytes = int64_t{96} << 10;  // of rows of x in a block
  const int64_t bytes = pieces_of(codes_of(*op.gate_up)) * 2 * op.x.rows() * op.x.width();
  return bytes <= kMostBytes && op.chosen.width() * codes_of(*op.down).columns <= 16384;
}

void compute_streamed(Context& context, const Experts& op) {
  codes_of(*op.gate_up).coding == Coding::Fp8 ? run<true>(context, op) : run<false>(context, op);
}

}  // namespace braid::cuda
