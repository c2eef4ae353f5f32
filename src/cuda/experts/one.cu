// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/one.h"

#include "cuda/linear/ring.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMostChoices = 31;  // of a row: a lane each, and one for the shared expert

// Whether all weights are of one form, which the kernel has, in whole chunks and tiles.
bool suits(const Context& context, const Experts& op) {
  const Codes& like = codes_of(*op.gate_up);
  for (const Weight* weight : {op.gate_up, op.down, op.shared_gate_up, op.shared_down}) {
    if (weight == nullptr) continue;
    const Codes& codes = codes_of(*weight);
    const bool gated = weight == op.gate_up || weight == op.shared_gate_up;
    if (codes.coding != like.coding || codes.row_scales != like.row_scales || !has_ring(context, codes)) return false;
    if (codes.rows % (gated ? kTileRows : 1) != 0) return false;
  }
  return true;
}

Ring ring_of(const Experts& op, const Codes& choice, const Codes* shared, bool gated) {
  Ring s{.source_count = shared != nullptr ? 2 : 1, .gated = gated, .tokens = 1};
  s.sources[0] = ring_source(choice);
  if (shared != nullptr) s.sources[1] = ring_source(*shared);
  s.chosen = op.chosen.as<int32_t>(), s.choices = static_cast<int32_t>(op.chosen.width());
  return s;
}

}  // namespace

bool compute_one(Context& context, const Experts& op, float* stream) {
  const View x = view(op.x);
  if (!context.fast() || op.x.rows() != 1 || reinterpret_cast<uintptr_t>(x.data) % 16 != 0 ||
      op.chosen.width() > kMostChoices || !suits(context, op))
    return false;
  const bool shared = op.shared_gate_up != nullptr;
  const Codes &gate_up = codes_of(*op.gate_up), &down = codes_of(*op.down);
  const Codes* shared_gate_up = shared ? &codes_of(*op.shared_gate_up) : nullptr;
  const Codes* shared_down = shared ? &codes_of(*op.shared_down) : nullptr;
  const RingForm form = ring_form(gate_up);
  const auto chunks = [&](const Codes& codes) { return static_cast<int32_t>(codes.columns / ring_columns(form)); };
  const int64_t width = op.chosen.width() * down.columns + (shared ? shared_down->columns : 0);

  Ring first = ring_of(op, gate_up, shared_gate_up, true);
  first.x = x, first.chunks = chunks(gate_up), first.choice_tiles = ring_tiles(gate_up, true);
  first.tiles = first.choices * first.choice_tiles + (shared ? ring_tiles(*shared_gate_up, true) : 0);

  Ring second = ring_of(op, down, shared_down, false);
  second.weights = op.weights.as<float>(), second.shared_gate = op.shared_gate ? op.shared_gate.as<float>() : nullptr;
  second.choice_chunks = chunks(down), second.tiles = ring_tiles(down, false);
  second.chunks = second.choices * second.choice_chunks + (shared ? chunks(*shared_down) : 0);
  // The shared expert is no source of its own tiles.
  second.source_count = 1, second.sources[0].out = view(op.out), second.sources[1].out = view(op.out);
  second.stream = stream;

  const std::optional<Extents> of_first = ring_extents(first, form, context.multiprocessors());
  const std::optional<Extents> of_second = ring_extents(second, form, context.multiprocessors());
  if (!of_first || !of_second) return false;
  View hidden{.data = context.take<float>(width), .shape = {1, width}, .stride = {width, 1}};
  first.sources[0].out = first.sources[1].out = hidden, second.x = hidden;
  launch_choice_ring(context, first, form, RingInput::Slots, *of_first);
  launch_choice_ring(context, second, form, RingInput::Joined, *of_second);
  return true;
}

}  // namespace braid::cuda
