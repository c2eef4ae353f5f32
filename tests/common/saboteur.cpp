// SPDX-License-Identifier: Apache-2.0
#include "saboteur.h"

#include <algorithm>
#include <cstring>

namespace braid::tests {

std::string_view name_of(Defect defect) {
  switch (defect) {
    case Defect::StateNotWrittenBack:
      return "state not written back";
    case Defect::ConvolutionForgotten:
      return "convolution window forgotten";
    case Defect::WindowFromPassStart:
      return "window measured from the pass's start";
    case Defect::PositionsFromPassStart:
      return "positions counted from the pass's start";
    case Defect::NeighboursSlot:
      return "the neighbour's slot";
    case Defect::SnapshotWithoutState:
      return "snapshot without the recurrent state";
    case Defect::ReadsBeyondLength:
      return "a read beyond the sequence's length";
    case Defect::DependsOnBatch:
      return "a product that depends on the batch";
    case Defect::StaleScratch:
      return "step memory read after it was given back";
  }
  return "?";
}

Tensor Saboteur::copied(const Tensor& tensor) {
  auto& copy = copies_.emplace_back(static_cast<size_t>(tensor.bytes()));
  std::memcpy(copy.data(), tensor.data, copy.size());
  Tensor out = tensor;
  out.data = copy.data();
  return out;
}

void Saboteur::submit_delta(DeltaRule op) {
  slots_.push_back(op.state);
  if (defect_ == Defect::StateNotWrittenBack) op.state = copied(op.state);
  if (defect_ == Defect::ConvolutionForgotten) op.conv_state = copied(op.conv_state);
  if (defect_ == Defect::NeighboursSlot && op.rows.sequences > 1) {
    op.rows.slots = copied(op.rows.slots);
    op.rows.slots.as<int32_t>()[1] = op.rows.slots.as<int32_t>()[0];
  }
  if (defect_ == Defect::StaleScratch) {
    // What a frame that ended too early would leave behind: the poison of released memory, in one gate.
    op.b = copied(op.b);
    if (op.rows.tokens > 1) std::memset(op.b.row<float>(op.rows.tokens - 1), 0xFF, 4);
  }
  inner_.submit(op);
}

void Saboteur::submit_prepare(PrepareHeads op) {
  if (defect_ == Defect::PositionsFromPassStart) {
    op.rows.positions = copied(op.rows.positions);
    auto* positions = op.rows.positions.as<int32_t>();
    const auto* starts = op.rows.starts.as<int32_t>();
    for (int32_t s = 0; s < op.rows.sequences; ++s)
      for (int32_t row = starts[s]; row < starts[s + 1]; ++row) positions[row] = row - starts[s];
  }
  inner_.submit(op);
}

void Saboteur::submit_attention(PagedAttention op) {
  if (defect_ == Defect::WindowFromPassStart && op.rows.sequences > 0) {
    const int64_t longest = op.rows.longest;
    op.window = op.window > 0 ? std::min(op.window, longest) : longest;
  }
  if (defect_ == Defect::ReadsBeyondLength) {
    op.rows.positions = copied(op.rows.positions);
    const auto* starts = op.rows.starts.as<int32_t>();
    // Only where the page holds that position.
    for (int32_t s = 0; s < op.rows.sequences; ++s)
      if (int32_t& last = op.rows.positions.as<int32_t>()[starts[s + 1] - 1]; (last + 1) % op.cache.keys.size(1) != 0)
        last += 1;
    op.rows.context += 1;
  }
  inner_.submit(op);
}

void Saboteur::submit_linear(const Linear& op) {
  inner_.submit(op);
  if (defect_ != Defect::DependsOnBatch || op.x.rows() < 8 || op.targets[0].out.dtype != DType::F32) return;
  float* value = op.targets[0].out.row<float>(op.x.rows() - 1);
  *value *= 1 + 0x1p-20f;
}

void Saboteur::submit(const Op& op) {
  if (const auto* delta = std::get_if<DeltaRule>(&op)) {
    submit_delta(*delta);
  } else if (const auto* prepare = std::get_if<PrepareHeads>(&op)) {
    submit_prepare(*prepare);
  } else if (const auto* attention = std::get_if<PagedAttention>(&op)) {
    submit_attention(*attention);
  } else if (const auto* linear = std::get_if<Linear>(&op)) {
    submit_linear(*linear);
  } else {
    inner_.submit(op);
  }
  copies_.clear();
}

void Saboteur::upload(Tensor to, std::span<const std::byte> from) {
  // Whatever is written into a slot from outside comes from a snapshot.
  const bool slot = std::ranges::any_of(
      slots_, [&](const Tensor& array) { return to.data >= array.data && to.data < array.data + array.bytes(); });
  if (defect_ != Defect::SnapshotWithoutState || !slot) return inner_.upload(to, from);
  inner_.submit(Fill{.out = to, .byte = 0});
}

}  // namespace braid::tests
