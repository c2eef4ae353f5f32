// The loop that turns requests into tokens: many sequences at once over one pool of state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "state/pool.h"

namespace braid {

struct EngineOptions {
  int64_t context = 4096;              // tokens of one sequence, prompt and answer
  SchedulerLimits steps;               // with the number of sequences that run at once
  StatePool::Limits state;             // from plan_state; no slots: enough for `steps.sequences` full contexts
  TokenSet allowed;                    // tokens that the tokenizer has; none: all
  std::vector<int32_t> end_tokens;     // end an answer, unless it ignores them
  std::optional<uint64_t> seed;        // of the seeds of requests that bring none; absent: from the system
  std::optional<int64_t> max_waiting;  // requests that wait for a place; absent: any number
  bool poison = false;                 // free memory holds NaN: for tests
};

// Not thread-safe: whoever calls `step` is the engine's thread, and callbacks run on it. A server puts submissions and
// cancellations into a queue of its own that this thread empties before each step.
//
// An error of a step ends the requests of that step, the error of a callback its own request; the engine goes on.
class Engine {
 public:
  // A Resource error when state or step memory cannot be had.
  Engine(const LoadedModel& model, EngineOptions options);

  // An Input error in one line when the request cannot be served, a Resource error when max_waiting requests wait
  // already; else its events follow in later steps.
  RequestId submit(Request request);
  // The request ends with FinishReason::Cancelled in the next step. Unknown and finished ones are left alone.
  void cancel(RequestId id);
  // Drops the state that a finished request kept.
  void forget(RequestId id);

  // One turn: a step over some rows, and the events that follow from it. False when there was nothing to do.
  bool step();
  void run_until_idle();

  struct Load {
    size_t running = 0, waiting = 0, kept = 0;
    int64_t preemptions = 0;  // so far
  };
  Load load() const;
  const StatePool& pool() const { return pool_; }
  const EngineOptions& options() const { return options_; }
  // Programmer check of all state that is held.
  void check_integrity() const;

 private:
  using Kept = std::vector<KeptState>::iterator;
  std::vector<int32_t> stop_tokens_of(const Request& request) const;
  Decision plan();
  SequenceView view(const Sequence& sequence);
  Kept resumable(const Sequence& sequence);
  bool drop_kept();
  void start(Sequence& sequence);
  void compute(const Decision& decision);
  std::vector<Drawn> draw(const Pass& pass, const std::vector<Sequence*>& chosen);
  void constrain(Sequence& sequence);
  void take(Sequence& sequence, const Drawn& drawn);
  // A callback that fails ends the request.
  Verdict deliver(Sequence& sequence, Event event);
  void finish(Sequence& sequence, FinishReason reason, Event event = {});
  int64_t held_room(int64_t tokens) const { return std::min(tokens, options_.context); }

  LoadedModel model_;
  EngineOptions options_;
  StatePool pool_;
  StepRunner runner_;
  Sampler sampler_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // in order of arrival
  std::vector<KeptState> kept_;                       // the oldest first
  RequestId last_id_ = 0;
  uint64_t seed_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace braid
