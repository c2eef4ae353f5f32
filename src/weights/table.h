// The loaded weights of a model, found by the handles that the plan gave out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/executor.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"
#include "weights/checkpoint.h"
#include "weights/plan.h"

namespace braid {

// Owns every weight, the checkpoint whose mapped bytes they may point into, and memory for what was converted.
// Immutable after loading; reading is safe from any thread.
class WeightTable {
 public:
  const Weight& matrix(MatrixId id) const { return matrices_[static_cast<size_t>(id.index)]; }
  // f32, in the executor's memory; an absent handle gives an empty tensor.
  Tensor vector(VectorId id) const { return id ? vectors_[static_cast<size_t>(id.index)] : Tensor(); }
  std::span<const Weight> matrices() const { return matrices_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend WeightTable load_weights(const WeightPlan&, std::shared_ptr<const Checkpoint>, Executor&);
  friend WeightTable random_weights(const WeightPlan&, Executor&, uint64_t);
  // What the weights point into comes first, so that it dies last.
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<OwnedWeight> owned_;
  std::vector<std::vector<float>> scales_;
  std::vector<Memory> memory_;
  std::vector<Tensor> vectors_;
  std::vector<Weight> matrices_;
  int64_t bytes_ = 0;
};

// Runs the plan: points at, reads or converts each weight's bytes, and lets the executor pack it. Shows a progress bar
// on a terminal. NaN scales, and values that are not finite in vectors, are refused by name.
WeightTable load_weights(const WeightPlan& plan, std::shared_ptr<const Checkpoint> checkpoint, Executor& executor);

// Reads every value there is, for when logits were not finite: the first that is not is refused by name. Shows a
// progress bar on a terminal.
void check_values(const Checkpoint& checkpoint);

// Random weights of the planned shapes and formats, the same for the same seed: matrices with entries of deviation
// columns^-1/2, vectors near what trained ones are (norms near 1, everything else small). Matrices of more than 4 MiB
// repeat numbers where packing copies. For tests and benchmarks.
WeightTable random_weights(const WeightPlan& plan, Executor& executor, uint64_t seed);

}  // namespace braid
