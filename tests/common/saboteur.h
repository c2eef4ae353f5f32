// An executor with a defect planted on purpose, to see the relation tests catch it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/wrappers/passing.h"

namespace braid::tests {

enum class Defect {
  StateNotWrittenBack,     // the recurrence starts from the same state every time
  ConvolutionForgotten,    // the window of earlier inputs is lost between passes
  WindowFromPassStart,     // attention sees nothing before the rows of its pass
  PositionsFromPassStart,  // rotary angles and cache places count from the pass
  NeighboursSlot,          // the second sequence uses the first one's slot
  SnapshotWithoutState,    // a restored sequence has its pages, and an empty slot
  ReadsBeyondLength,       // attention sees one position that nobody wrote
  DependsOnBatch,          // a product is off by one part in 2^20 when many rows are computed
  StaleScratch,            // a gate is read from memory that was given back
};
inline constexpr Defect kDefects[] = {
    Defect::StateNotWrittenBack,    Defect::ConvolutionForgotten, Defect::WindowFromPassStart,
    Defect::PositionsFromPassStart, Defect::NeighboursSlot,       Defect::SnapshotWithoutState,
    Defect::ReadsBeyondLength,      Defect::DependsOnBatch,       Defect::StaleScratch};
std::string_view name_of(Defect defect);

class Saboteur : public PassingExecutor {
 public:
  Saboteur(std::unique_ptr<Executor> inner, Defect defect)
      : PassingExecutor(*inner), owned_(std::move(inner)), defect_(defect) {}
  std::string_view name() const override { return "sabotaged"; }
  void submit(const Op& op) override;
  void upload(Tensor to, std::span<const std::byte> from) override;

 private:
  void submit_delta(DeltaRule op);
  void submit_prepare(PrepareHeads op);
  void submit_attention(PagedAttention op);
  void submit_linear(const Linear& op);
  // A copy of `tensor` that lasts until the next op.
  Tensor copied(const Tensor& tensor);
  std::unique_ptr<Executor> owned_;
  Defect defect_;
  std::vector<std::vector<std::byte>> copies_;
  std::vector<Tensor> slots_;  // arrays of recurrent state seen so far
};

}  // namespace braid::tests
