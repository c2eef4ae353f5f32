// Which sequences run: what each would begin with, who may start, and who gives way.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/mark_plan.h"

namespace braid {
namespace {

constexpr int64_t kBorder = 64;
// Nearly all steps with answers and rows of prompts are to take at most so many times the time of one with answers
// alone: below three, with room for the slowest of a hundred.
constexpr double kSlowestStep = 1.6;

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first - a.begin();
}

}  // namespace

PrefixCache::Hit Engine::find(const Sequence& sequence) const {
  if (!sequence.request.use_cache || *options_.cache_bytes == 0) return {};
  int64_t most = std::ssize(sequence.tokens) - 1;
  // Where answers are computed again as they were drawn, another request's prompt must not stand in for them.
  if (options_.deterministic) most = std::min(most, sequence.prompt);
  const auto beginning = std::span(sequence.tokens).first(static_cast<size_t>(most));
  PrefixCache::Hit hit = cache_.find(beginning, options_.deterministic ? kBorder : 1);
  if (sequence.scoring()) hit.length = 0, hit.mark = 0;
  // A hit that does not fit beside what runs is no hit: alone, every request fits.
  if (hit.mark != 0 &&
      cache_.missing_pages(hit, held_room(std::ssize(sequence.tokens) + 1)) > pool_.free_pages() + pool_.kept_pages())
    hit.length = 0, hit.mark = 0;
  return hit;
}

// Where the range that begins at `held` ends at the latest.
int64_t Engine::next_stop(const Sequence& sequence, int64_t held) const {
  int64_t stop = std::ssize(sequence.tokens);
  if (const auto mark = std::ranges::upper_bound(sequence.marks, held); mark != sequence.marks.end())
    stop = std::min(stop, *mark);
  if (sequence.scoring()) stop = std::min(stop, (held / kBorder + 1) * kBorder);
  // A prompt's last chunk is a range of its own, and an answer that is computed again takes the form it had: one token
  // at a time.
  if (options_.deterministic) {
    const int64_t whole = sequence.prompt / kBorder * kBorder;
    stop = std::min(stop, held < whole ? whole : held < sequence.prompt ? sequence.prompt : held + 1);
  }
  return stop;
}

// Whether one that is before it is about to leave a longer beginning in the cache.
bool Engine::deferred(const Sequence& sequence, std::span<Sequence* const> before) const {
  const auto scores = [&](const Sequence* other) { return other->scoring(); };
  if (sequence.scoring() && std::ranges::any_of(before, scores)) return true;
  if (sequence.parked || !sequence.request.use_cache || *options_.cache_bytes == 0 || sequence.scoring()) return false;
  return std::ranges::any_of(before, [&](const Sequence* other) {
    const int64_t held = other->running() ? other->state.length : other->hit.length;
    if (!other->request.use_cache || other->marks.empty() || other->marks.back() <= held) return false;
    const int64_t common = std::min(common_length(sequence.tokens, other->tokens), std::ssize(sequence.tokens) - 1);
    return std::ranges::any_of(other->marks, [&](int64_t mark) {
      const int64_t gained = pool_.slot_bytes() == 0 ? std::min(mark, common) : mark <= common ? mark : 0;
      return mark > held && gained > sequence.hit.length + kBorder;
    });
  });
}

SequenceView Engine::view(Sequence& sequence) {
  SequenceView view{.tokens = std::ssize(sequence.tokens),
                    .held = sequence.state.length,
                    .priority = sequence.request.priority,
                    .running = sequence.running()};
  if (view.running) {
    view.missing_pages = pool_.missing_pages(sequence.state, view.tokens);
  } else if (sequence.parked) {
    sequence.hit = {};
    view.held = sequence.parked->length;
    view.missing_pages = StatePool::pages_for(held_room(view.tokens + 1));
  } else {
    sequence.hit = find(sequence);
    view.held = sequence.hit.length;
    view.missing_pages = cache_.missing_pages(sequence.hit, held_room(view.tokens + 1));
    if (sequence.request.use_cache && *options_.cache_bytes > 0)
      sequence.marks = mark_lengths({.prompt = sequence.prompt,
                                     .borders = sequence.request.borders,
                                     .interval = options_.cache_interval,
                                     .cached = sequence.hit.length,
                                     .common = sequence.hit.common,
                                     .strict = options_.deterministic});
  }
  view.until = next_stop(sequence, view.held);
  return view;
}

// Those that run, and as many waiting ones as could start; one at least, which may have a higher priority.
std::vector<Sequence*> Engine::candidates() {
  std::vector<Sequence*> seen;
  const auto running = std::ranges::count_if(sequences_, [](const auto& sequence) { return sequence->running(); });
  int64_t places = std::max<int64_t>(options_.steps.sequences - running, 1);
  for (const auto& sequence : sequences_)
    if (sequence->running() || places > 0) {
      if (!sequence->running()) --places;
      seen.push_back(sequence.get());
    }
  return seen;
}

SchedulerLimits Engine::limits() const {
  SchedulerLimits limits = options_.steps;
  const auto answering = std::ranges::count_if(sequences_, [](const auto& sequence) {
    return sequence->running() && std::ssize(sequence->tokens) - sequence->state.length == 1;
  });
  limits.beside_answers = std::max(cost_.rows_beside(answering, kSlowestStep), limits.strict ? kBorder : 1);
  return limits;
}

Engine::Plan Engine::plan() {
  for (;;) {
    Plan plan{.seen = candidates()};
    std::vector<SequenceView> views;
    std::vector<Sequence*> before;
    std::ranges::copy_if(plan.seen, std::back_inserter(before), &Sequence::running);
    for (Sequence* sequence : plan.seen) {
      views.push_back(view(*sequence));
      if (sequence->running()) continue;
      views.back().deferred = deferred(*sequence, before);
      if (!views.back().deferred) before.push_back(sequence);
    }
    const PoolView pool{.free_pages = pool_.free_pages() + pool_.kept_pages(),
                        .free_slots = pool_.free_slots() + cache_.movable_slots()};
    plan.decision = decide(views, pool, limits());
    if (plan.decision.preempt) {
      preempt(*plan.seen[*plan.decision.preempt]);
      continue;
    }
    CHECK(!plan.decision.rows.empty(), "{} sequences and nothing to do", sequences_.size());
    cache_.unpin();
    for (const RowRange& range : plan.decision.rows)
      if (const Sequence& sequence = *plan.seen[range.index]; range.starts && sequence.hit.mark != 0)
        cache_.pin(sequence.hit.mark);
    return plan;
  }
}

// Keeps the state of a sequence in host memory, where that is cheaper than to compute it again, and fits.
bool Engine::park(Sequence& sequence) {
  const int64_t length = sequence.state.length, bytes = static_cast<int64_t>(pool_.snapshot_bytes(length));
  const int64_t again = length - find(sequence).length;
  // In deterministic mode an answer is computed again as it was drawn, token by token.
  const int64_t answers = options_.deterministic ? std::max<int64_t>(length - sequence.prompt, 0) : 0;
  const double compute = cost_.row_seconds() * static_cast<double>(std::max<int64_t>(again - answers, 0)) +
                         cost_.answer_seconds(1) * static_cast<double>(std::min(again, answers));
  if (2 * static_cast<double>(bytes) / copy_bytes_per_second_ > compute || !cache_.reserve(bytes)) return false;
  const auto began = Sequence::Clock::now();
  try {
    sequence.parked = pool_.snapshot(sequence.state);
  } catch (...) {
    cache_.unreserve(bytes);
    throw;
  }
  const std::chrono::duration<double> took = Sequence::Clock::now() - began;
  if (took.count() > 0) copy_bytes_per_second_ = static_cast<double>(bytes) / took.count();
  ++counts_.parked;
  return true;
}

void Engine::preempt(Sequence& sequence) {
  park(sequence);
  pool_.release(sequence.state);
  ++sequence.usage.preemptions, ++counts_.preemptions;
}

namespace {

CacheLimit limit_of(const Sequence& sequence, bool off) {
  if (off || !sequence.request.use_cache) return CacheLimit::Off;
  if (sequence.request.prompt_logprobs) return CacheLimit::Logprobs;
  if (sequence.hit.length >= sequence.prompt - 1) return CacheLimit::None;
  return sequence.hit.length >= sequence.hit.common ? CacheLimit::Unknown : CacheLimit::Dropped;
}

}  // namespace

// Gives a waiting sequence its state: its own that was parked, what the cache has, or an empty one.
void Engine::start(Sequence& sequence) {
  const int64_t room = held_room(std::ssize(sequence.tokens) + 1);
  CHECK(cache_.free_slot());
  if (sequence.parked) {
    cache_.reclaim_pages(StatePool::pages_for(room));
    sequence.state = pool_.restore(*sequence.parked);
    cache_.unreserve(static_cast<int64_t>(sequence.parked->bytes.size()));
    sequence.parked.reset();
  } else {
    sequence.state = sequence.hit.mark != 0 ? cache_.resume(sequence.hit) : pool_.acquire();
    sequence.prompt_logprobs.clear();
  }
  cache_.reclaim_pages(pool_.missing_pages(sequence.state, room));
  CHECK(pool_.grow(sequence.state, room));
  if (sequence.started != Sequence::Clock::time_point{}) return;
  sequence.started = Sequence::Clock::now();
  Usage& usage = sequence.usage;
  usage.cached = sequence.state.length;
  usage.known = std::max(sequence.hit.common, usage.cached);
  usage.limit = limit_of(sequence, *options_.cache_bytes == 0);
  counts_.prompt_tokens += sequence.prompt, counts_.cached_tokens += usage.cached;
  ++counts_.limits[static_cast<size_t>(usage.limit)];
  constexpr int64_t kWorthALine = 512;
  if (usage.limit == CacheLimit::Dropped && usage.known - usage.cached >= kWorthALine)
    log::info("prefix known and not held request={} prompt={} known={} cached={}", sequence.id, usage.prompt,
              usage.known, usage.cached);
}

}  // namespace braid
