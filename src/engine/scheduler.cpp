// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

// Recurrent parts compute in chunks whose borders are multiples of this: ranges that end there give the same bits
// wherever a prompt is cut.
constexpr int64_t kBorder = 64;

int64_t range_length(const SequenceView& sequence, int64_t most) {
  const int64_t pending = sequence.tokens - sequence.held;
  if (pending <= most) return pending;
  const int64_t border = (sequence.held + most) / kBorder * kBorder;
  return border > sequence.held ? border - sequence.held : most;
}

class Decider {
 public:
  Decider(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits)
      : sequences_(sequences), pool_(pool), limits_(limits), budget_(limits.step_tokens) {}

  Decision decide() {
    for (const bool single : {true, false})
      for (size_t i = 0; i < sequences_.size(); ++i)
        if (sequences_[i].running && (sequences_[i].tokens - sequences_[i].held == 1) == single && !take(i))
          return {.preempt = youngest(), .short_of_memory = true};
    admit();
    return std::move(decision_);
  }

 private:
  // False when the pool lacks pages for a running sequence.
  bool take(size_t index) {
    const SequenceView& sequence = sequences_[index];
    if (budget_ == 0) return true;
    if (sequence.missing_pages > pool_.free_pages) return false;
    pool_.free_pages -= sequence.missing_pages;
    const int64_t count = range_length(sequence, std::min(limits_.chunk, budget_));
    budget_ -= count;
    decision_.rows.push_back({.index = index, .count = count, .starts = !sequence.running});
    return true;
  }

  void admit() {
    auto running = std::count_if(sequences_.begin(), sequences_.end(), [](const auto& s) { return s.running; });
    for (size_t i = 0; i < sequences_.size() && budget_ > 0 && running < limits_.sequences; ++i) {
      const SequenceView& sequence = sequences_[i];
      if (sequence.running) continue;
      if ((sequence.needs_slot && pool_.free_slots == 0) || !take(i)) {
        decision_.short_of_memory = true;
        return;
      }
      if (sequence.needs_slot) --pool_.free_slots;
      ++running;
    }
  }

  size_t youngest() const {
    size_t index = sequences_.size();
    while (index-- > 0)
      if (sequences_[index].running) break;
    return index;
  }

  std::span<const SequenceView> sequences_;
  PoolView pool_;
  const SchedulerLimits& limits_;
  int64_t budget_;
  Decision decision_;
};

}  // namespace

Decision decide(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits) {
  CHECK(limits.chunk > 0 && limits.sequences > 0 && limits.step_tokens >= limits.sequences,
        "chunk={} sequences={} step_tokens={}", limits.chunk, limits.sequences, limits.step_tokens);
  for (const SequenceView& sequence : sequences)
    CHECK(sequence.held >= 0 && sequence.held < sequence.tokens, "held={} tokens={}", sequence.held, sequence.tokens);
  return Decider(sequences, pool, limits).decide();
}

}  // namespace braid
