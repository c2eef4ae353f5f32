// Which rows the next step computes, who may start, and who must give its memory back: a pure function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace braid {

// One unfinished sequence, as the scheduler sees it.
struct SequenceView {
  int64_t tokens = 0;         // known: the prompt and what was drawn
  int64_t held = 0;           // of these, the first whose state is held; at least one is not
  int64_t missing_pages = 0;  // running: to hold all known tokens; waiting: to hold them and one more
  bool needs_slot = false;    // waiting without state
  bool running = false;
};

struct PoolView {
  int64_t free_pages = 0;
  int32_t free_slots = 0;
};

struct SchedulerLimits {
  int64_t step_tokens = 512;  // rows of a step, at least `sequences`
  int64_t chunk = 256;        // rows of one sequence in a step
  int32_t sequences = 8;      // running at once
};

// Rows [held, held + count) of the sequence at `index`; its pages suffice once they are grown in this order.
struct RowRange {
  size_t index = 0;
  int64_t count = 0;
  bool starts = false;  // it was waiting
  bool operator==(const RowRange&) const = default;
};

struct Decision {
  std::vector<RowRange> rows;
  // Set: nothing else is decided. The state of this running sequence has to go, and the question to be asked again.
  std::optional<size_t> preempt;
  // Memory kept someone waiting who had a place in the batch.
  bool short_of_memory = false;
};

// `sequences` are in order of arrival, preempted ones at their old place. Sequences with one token to compute come
// first, then prompts in order of arrival within the budget, then waiting ones, none before an older one. When pages
// run out the youngest running sequence is preempted, so the oldest always proceeds in a pool that can hold it alone.
Decision decide(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits);

}  // namespace braid
