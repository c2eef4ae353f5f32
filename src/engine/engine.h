// The loop that turns requests into tokens: many sequences at once over one pool of state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/state_store.h"
#include "engine/step_cost.h"
#include "engine/step_runner.h"
#include "state/pool.h"
#include "state/prefix_cache.h"

namespace braid {

struct EngineOptions {
  int64_t context = 4096;  // tokens of one sequence, prompt and answer
  // With the number of sequences that run at once; no step_tokens: as many as the executor uses well; no chunk: half.
  SchedulerLimits steps;
  StatePool::Limits state;          // from plan_state; no slots: `steps.sequences` full contexts, and some more slots
  TokenSet allowed;                 // tokens that the tokenizer has; none: all
  std::vector<int32_t> end_tokens;  // end an answer, unless it ignores them
  std::optional<uint64_t> seed;     // of the seeds of requests that bring none; absent: from the system
  std::optional<int64_t> max_waiting;  // requests that wait for a place; absent: any number
  // Of the prefix cache and of preempted state in host memory; absent: default_cache_bytes; 0: none.
  std::optional<int64_t> cache_bytes;
  int64_t cache_interval = 0;  // tokens between kept states of a long prompt, a multiple of 64; 0: from their size
  // The same request gets the same tokens whatever else runs, however its prompt is cut, and wherever it begins in the
  // cache (docs/prefix_cache.md), where the executor keeps rows independent; a warning says where it does not.
  bool deterministic = false;
  std::filesystem::path cache_folder;  // where the cache survives the process; empty: nowhere
  std::string identity;                // of the model and its device, for files of state
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

  // One turn: a step over some rows, and the events that follow from it; without requests, a piece of the cache is
  // written to its folder. False when there was nothing to do.
  bool step();
  void run_until_idle();
  // Waits until the folder of the cache is up to date.
  void drain();

  // Writes the longest state that is kept of these tokens to a file, and returns how many of them it covers; 0: none is
  // kept, and nothing is written.
  int64_t save_session(std::span<const int32_t> tokens, const std::filesystem::path& file) const;
  // Keeps the state of a file, and returns its tokens. An Input error when it is no file of this model's state, a
  // Resource error when it does not fit.
  std::vector<int32_t> restore_session(const std::filesystem::path& file);

  // Sums since the start.
  struct Counts {
    int64_t steps = 0, rows = 0, preemptions = 0,
            parked = 0;                            // parked: of the preemptions, those that kept their state
    int64_t prompt_tokens = 0, cached_tokens = 0;  // of requests that began
    std::array<int64_t, 5> limits{};               // requests that began, by their CacheLimit
  };
  struct Load {
    size_t running = 0, waiting = 0;
    int64_t free_pages = 0;  // with those that only the cache holds; and slots likewise
    int32_t free_slots = 0;
    Counts counts;
    PrefixCache::Stats cache;
  };
  Load load() const;
  const StatePool& pool() const { return pool_; }
  const EngineOptions& options() const { return options_; }
  const StepCost& cost() const { return cost_; }
  void clear_cache() { cache_.clear(); }
  // Programmer check of all state that is held, and of the bytes that are counted.
  void check_integrity() const;

 private:
  std::vector<int32_t> stop_tokens_of(const Request& request) const;
  StateShape shape() const;
  int64_t held_room(int64_t tokens) const { return std::min(tokens, options_.context); }

  // Who runs (admission.cpp).
  struct Plan {
    std::vector<Sequence*> seen;
    Decision decision;  // rows index `seen`
  };
  Plan plan();
  void end_all(const std::string& why);
  std::vector<Sequence*> candidates();
  SequenceView view(Sequence& sequence);
  PrefixCache::Hit find(const Sequence& sequence) const;
  int64_t next_stop(const Sequence& sequence, int64_t held) const;
  bool deferred(const Sequence& sequence, std::span<Sequence* const> before) const;
  SchedulerLimits limits() const;
  void preempt(Sequence& sequence);
  bool park(Sequence& sequence);
  void start(Sequence& sequence);

  void compute(const Plan& plan);
  SequenceRows rows_of(const Sequence& sequence, int64_t count) const;
  void commit(Sequence& sequence, int64_t count);

  // What they answer (answers.cpp).
  std::vector<Drawn> draw(const Pass& pass, const std::vector<Sequence*>& chosen);
  void score(Sequence& sequence, Tensor logits, int32_t token);
  void constrain(Sequence& sequence);
  void take(Sequence& sequence, const Drawn& drawn);
  // A callback that fails ends the request.
  Verdict deliver(Sequence& sequence, Event event);
  void finish(Sequence& sequence, FinishReason reason, Event event = {});

  LoadedModel model_;
  EngineOptions options_;
  StatePool pool_;
  PrefixCache cache_;
  std::optional<StateStore> store_;
  StepRunner runner_;
  Sampler sampler_;
  StepCost cost_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // by priority, then in order of arrival
  RequestId last_id_ = 0;
  uint64_t seed_ = 0;
  double copy_bytes_per_second_ = 4e9;  // of parked states, measured; before the first one: what slow memory does
  Counts counts_;
};

}  // namespace braid
