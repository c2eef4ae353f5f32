// Runs one step: batch to device, forward, and whatever is wanted of its outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "engine/batch.h"
#include "model/forward.h"
#include "model/spec.h"
#include "ops/executor.h"
#include "state/pool.h"
#include "tensor/scratch.h"
#include "weights/table.h"

namespace braid {

// What runs a model. All of it must outlive whoever is given it. The spec's state is claimed (claim_state).
struct LoadedModel {
  Executor& executor;
  const ModelSpec& spec;
  const WeightTable& weights;
};

// One pass that has been submitted. Its outputs last until the callback that was given it returns.
struct Pass {
  const Outputs& outputs;
  const BuiltBatch& built;
};
using PassUse = std::function<void(const Pass&)>;
// As Tap, with the batch whose rows the stream holds.
using PassTap = std::function<void(const BuiltBatch& built, int layer, Tensor stream)>;

// Not thread-safe. Owns step memory, measured by running forward at the largest extents, and the batch's arrays.
//
// Decode steps (one row of each sequence, every row to the head) are recorded where the executor does that: the first
// step of some extents runs op by op, the second is recorded, later ones are replayed. A recording depends on extents
// alone; what differs from step to step lies in the batch's arrays.
class StepRunner {
 public:
  struct Options {
    BatchBuilder::Limits limits;
    int drafts = 0;       // how deep `draft` may be nested in a pass
    bool poison = false;  // free step memory holds NaN: for tests
  };
  StepRunner(const LoadedModel& model, const StatePool& pool, const Options& options);

  // Computes these rows, then calls `use`. Lengths of states are the caller's to commit.
  void run(std::span<const SequenceRows> rows, const PassUse& use, const PassTap& tap = nullptr);
  // The drafter's pass, called from the `use` of a pass whose hidden rows it pairs with the tokens that follow them:
  // hidden[t] with the token at place t of the batch.
  void draft(std::span<const SequenceRows> rows, Tensor hidden, const PassUse& use);
  size_t scratch_bytes() const { return memory_.bytes(); }

 private:
  struct Recorded {
    std::unique_ptr<Recording> recording;
    Outputs outputs;
    size_t used = 0;        // step memory below the end of the outputs
    bool refused = false;   // the executor could not record it
    uint64_t last_use = 0;  // by count of decode steps
  };
  static constexpr size_t kMostRecordings = 64;

  size_t measure(int drafts) const;
  Step step(Scratch& scratch, const Batch& batch) const;
  Outputs decode(Step& pass, const Batch& batch);
  Outputs record(Step& pass, Recorded& recorded);
  void forget_oldest();

  LoadedModel model_;
  const StatePool* pool_;
  bool poison_;
  BatchBuilder builder_;
  Memory memory_;
  Scratch scratch_;
  std::map<std::pair<int64_t, int64_t>, Recorded> recorded_;  // by rows and extent of the context
  uint64_t decode_steps_ = 0;
};

}  // namespace braid
