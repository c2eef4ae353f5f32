// A random model on an executor, with sequences whose tokens are fed in any pieces: what relation tests compare.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/step_runner.h"
#include "random_model.h"
#include "state/pool.h"
#include "weights/table.h"

namespace braid::tests {

// Rows of logits, one after the other.
using Logits = std::vector<float>;

class Rig {
 public:
  static constexpr int64_t kContext = 320;

  // The same seed gives the same model on every executor. `executor` must outlive the rig.
  Rig(uint64_t seed, bool real_heads, Executor& executor);
  ~Rig();

  // A new sequence, by its number.
  size_t start();
  // Feeds the next tokens of several sequences in one batch; gives the logits of every row, by sequence.
  std::vector<Logits> feed(std::span<const std::pair<size_t, std::vector<int32_t>>> rows);
  Logits feed(size_t sequence, std::vector<int32_t> tokens);
  // The drafter's logits too, each row paired with the token `shift` further on.
  Logits feed_draft(size_t sequence, std::vector<int32_t> tokens, std::vector<int32_t> next);
  // Saves a sequence, releases it, lets others use its memory, and restores it.
  void move(size_t sequence);
  size_t fork(size_t sequence);
  void check_integrity() const;

  const ModelSpec& spec() const { return model_.spec; }
  LoadedModel loaded() const { return {executor_, model_.spec, weights_}; }
  bool has_state() const;

 private:
  Executor& executor_;
  RandomModel model_;
  WeightTable weights_;
  std::unique_ptr<StatePool> pool_;
  std::unique_ptr<StepRunner> runner_;
  std::vector<SequenceState> sequences_;
};

// The largest over rows of ||ours - theirs|| / ||theirs||.
double row_error(const Logits& ours, const Logits& theirs, int64_t width);

std::vector<int32_t> random_tokens(uint64_t seed, int64_t count, int64_t vocabulary);

}  // namespace braid::tests
