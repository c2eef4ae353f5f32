// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

// Recurrent parts compute in chunks whose borders are multiples of this: ranges that end there give the same bits
// wherever a prompt is cut.
constexpr int64_t kBorder = 64;

class Decider {
 public:
  Decider(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits)
      : sequences_(sequences), pool_(pool), limits_(limits), budget_(limits.step_tokens) {}

  Decision decide() {
    for (size_t i = 0; i < sequences_.size(); ++i)
      if (running(i, true) && !take(i, 1)) return {.preempt = last_running()};
    if (!decision_.rows.empty()) budget_ = std::min(budget_, limits_.beside_answers);
    running_ = std::count_if(sequences_.begin(), sequences_.end(), [](const auto& s) { return s.running; });
    const auto prompts = std::count_if(sequences_.begin(), sequences_.end(),
                                       [](const auto& s) { return s.running && s.tokens - s.held > 1; });
    const auto waiting =
        std::count_if(sequences_.begin(), sequences_.end(), [](const auto& s) { return !s.running && !s.deferred; });
    sharers_ = prompts + std::min(waiting, std::max<int64_t>(limits_.sequences - running_, 0));
    for (size_t i = 0; i < sequences_.size(); ++i)
      if (running(i, false) && !take(i, share())) return {.preempt = last_running()};
    admit();
    return std::move(decision_);
  }

 private:
  bool running(size_t index, bool single) const {
    const SequenceView& sequence = sequences_[index];
    return sequence.running && (sequence.tokens - sequence.held == 1) == single;
  }

  // An equal part of the rows that are left, though no less than a chunk of the recurrent parts.
  int64_t share() {
    const int64_t part = std::max(budget_ / std::max<int64_t>(sharers_--, 1), kBorder);
    return std::min({part, limits_.chunk, budget_});
  }

  // How many rows, at most `most`, the next range has; 0 where a strict one has to wait for a larger part.
  int64_t range_length(const SequenceView& sequence, int64_t most) const {
    const int64_t pending = std::min(sequence.tokens, sequence.until) - sequence.held;
    if (pending <= most) return pending;
    const int64_t border = (sequence.held + most) / kBorder * kBorder;
    if (border > sequence.held) return border - sequence.held;
    return limits_.strict ? 0 : most;
  }

  // False when the pool lacks pages for it.
  bool take(size_t index, int64_t most) {
    const SequenceView& sequence = sequences_[index];
    const int64_t count = range_length(sequence, most);
    if (count == 0) return true;
    if (sequence.missing_pages > pool_.free_pages) return false;
    pool_.free_pages -= sequence.missing_pages;
    budget_ -= count;
    decision_.rows.push_back({.index = index, .count = count, .starts = !sequence.running});
    return true;
  }

  void admit() {
    for (size_t i = 0; i < sequences_.size() && budget_ > 0; ++i) {
      const SequenceView& sequence = sequences_[i];
      if (sequence.running || sequence.deferred) continue;
      const size_t before = decision_.rows.size();
      if (running_ >= limits_.sequences || pool_.free_slots == 0 || !take(i, share())) {
        const size_t last = last_running();
        if (last < sequences_.size() && sequences_[last].priority > sequence.priority) decision_ = {.preempt = last};
        return;
      }
      if (decision_.rows.size() == before) return;  // no room for its first range in this step
      --pool_.free_slots;
      ++running_;
    }
  }

  size_t last_running() const {
    size_t index = sequences_.size();
    while (index-- > 0)
      if (sequences_[index].running) return index;
    return sequences_.size();
  }

  std::span<const SequenceView> sequences_;
  PoolView pool_;
  const SchedulerLimits& limits_;
  int64_t budget_, running_ = 0, sharers_ = 0;
  Decision decision_;
};

}  // namespace

Decision decide(std::span<const SequenceView> sequences, const PoolView& pool, const SchedulerLimits& limits) {
  CHECK(limits.chunk > 0 && limits.sequences > 0 && limits.step_tokens >= limits.sequences,
        "chunk={} sequences={} step_tokens={}", limits.chunk, limits.sequences, limits.step_tokens);
  CHECK(!limits.strict || (limits.chunk >= kBorder && limits.step_tokens >= limits.sequences + kBorder),
        "chunk={} sequences={} step_tokens={}", limits.chunk, limits.sequences, limits.step_tokens);
  for (const SequenceView& sequence : sequences)
    CHECK(sequence.held >= 0 && sequence.held < std::min(sequence.tokens, sequence.until), "held={} tokens={} until={}",
          sequence.held, sequence.tokens, sequence.until);
  return Decider(sequences, pool, limits).decide();
}

}  // namespace braid
