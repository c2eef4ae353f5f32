// Which rows the next step computes, who may start, and who must give its memory back: a pure function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace braid {

// One unfinished sequence, as the scheduler sees it.
struct SequenceView {
  int64_t tokens = 0;         // known: the prompt and what was drawn
  int64_t held = 0;           // of these, the first whose state is held; at least one is not
  int64_t missing_pages = 0;  // running: to hold all known tokens; waiting: to hold them and one more
  int64_t until = std::numeric_limits<int64_t>::max();  // the next range ends here at the latest; beyond `held`
  int32_t priority = 0;                                 // lower ones go first
  bool running = false;
  bool deferred = false;  // waiting for what a running sequence is about to leave in the cache
};

// What requests can have: memory that only the cache holds counts as free.
struct PoolView {
  int64_t free_pages = 0;
  int32_t free_slots = 0;
};

struct SchedulerLimits {
  int64_t step_tokens = 0;  // rows of a step, at least `sequences`
  int64_t chunk = 0;        // rows of one sequence in a step
  int32_t sequences = 8;    // running at once
  // Rows of a step that has drawn tokens to compute as well, beside those: how long prompts may hold up answers.
  int64_t beside_answers = std::numeric_limits<int64_t>::max();
  // Ranges end on a multiple of 64, at `until` or at the last token, and nowhere else. `chunk` is at least 64, and
  // step_tokens at least `sequences` + 64.
  bool strict = false;
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
};

// `sequences` are in order of service: by priority, then by arrival, preempted ones at their old place. Sequences with
// one token to compute come first, all of them; then prompts in order, which share what is left of the rows; then
// waiting ones, none before an older one, except that deferred ones are passed over. When pages run out the last
// running sequence is preempted, and so is one of a lower priority when a waiting one lacks a place or memory: the
// first always proceeds in a pool that can hold it alone.
Decision decide(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits);

}  // namespace braid
