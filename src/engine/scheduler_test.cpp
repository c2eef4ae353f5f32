// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "state/pool.h"

namespace braid {
namespace {

SequenceView running(int64_t tokens, int64_t held, int64_t missing = 0) {
  return {.tokens = tokens, .held = held, .missing_pages = missing, .running = true};
}
SequenceView waiting(int64_t tokens, int64_t held = 0) {
  return {
      .tokens = tokens, .held = held, .missing_pages = StatePool::pages_for(tokens + 1) - StatePool::pages_for(held)};
}

struct Case {
  const char* name;
  std::vector<SequenceView> sequences;
  PoolView pool;
  SchedulerLimits limits;
  std::vector<RowRange> rows;
  std::optional<size_t> preempt = std::nullopt;
};

const SchedulerLimits kLimits{.step_tokens = 100, .chunk = 40, .sequences = 4};

const std::vector<Case> kCases{
    {.name = "nothing to do", .pool = {10, 4}, .limits = kLimits},
    {.name = "a prompt starts with a chunk",
     .sequences = {waiting(90)},
     .pool = {10, 4},
     .limits = kLimits,
     .rows = {{0, 40, true}}},
    {.name = "drawn tokens first, then prompts in order of arrival",
     .sequences = {running(70, 20), running(9, 8), running(50, 40)},
     .pool = {10, 1},
     .limits = kLimits,
     .rows = {{1, 1, false}, {0, 40, false}, {2, 10, false}}},
    {.name = "the budget cuts the last prompt",
     .sequences = {waiting(90), waiting(90), waiting(90)},
     .pool = {100, 4},
     .limits = kLimits,
     .rows = {{0, 40, true}, {1, 40, true}, {2, 20, true}}},
    {.name = "a range ends on a border of 64 where one is in reach",
     .sequences = {running(200, 40)},
     .pool = {10, 1},
     .limits = kLimits,
     .rows = {{0, 24, false}}},
    {.name = "places in the batch bound admission",
     .sequences = {running(9, 8), running(9, 8), running(9, 8), running(9, 8), waiting(5)},
     .pool = {10, 4},
     .limits = kLimits,
     .rows = {{0, 1, false}, {1, 1, false}, {2, 1, false}, {3, 1, false}}},
    {.name = "no slot, no start",
     .sequences = {running(9, 8), waiting(5)},
     .pool = {10, 0},
     .limits = kLimits,
     .rows = {{0, 1, false}}},
    {.name = "a range ends where it must at the latest",
     .sequences = {{.tokens = 90, .held = 10, .until = 17, .running = true}},
     .pool = {10, 1},
     .limits = kLimits,
     .rows = {{0, 7, false}}},
    {.name = "prompts share what is left, and those that may start have a part",
     .sequences = {running(900, 128), running(900, 128), waiting(900)},
     .pool = {100, 4},
     .limits = {.step_tokens = 600, .chunk = 600, .sequences = 4},
     .rows = {{0, 192, false}, {1, 192, false}, {2, 192, true}}},
    {.name = "beside answers prompts get few rows",
     .sequences = {running(9, 8), running(900, 0)},
     .pool = {100, 4},
     .limits = {.step_tokens = 600, .chunk = 600, .sequences = 4, .beside_answers = 70},
     .rows = {{0, 1, false}, {1, 64, false}}},
    {.name = "strict ranges wait for a whole chunk",
     .sequences = {running(900, 0), running(900, 64)},
     .pool = {100, 4},
     .limits = {.step_tokens = 100, .chunk = 100, .sequences = 4, .strict = true},
     .rows = {{0, 64, false}}},
    {.name = "who waits for another's prefix is passed over",
     .sequences = {running(90, 0), {.tokens = 90, .missing_pages = 6, .deferred = true}, waiting(20)},
     .pool = {100, 4},
     .limits = kLimits,
     .rows = {{0, 40, false}, {2, 20, true}}},
    {.name = "a higher priority takes the place of the last",
     .sequences = {waiting(20),
                   {.tokens = 9, .held = 8, .priority = 1, .running = true},
                   {.tokens = 9, .held = 8, .priority = 1, .running = true}},
     .pool = {100, 4},
     .limits = {.step_tokens = 100, .chunk = 40, .sequences = 2},
     .preempt = 2},
    {.name = "an equal priority does not",
     .sequences = {running(9, 8), running(9, 8), waiting(20)},
     .pool = {100, 4},
     .limits = {.step_tokens = 100, .chunk = 40, .sequences = 2},
     .rows = {{0, 1, false}, {1, 1, false}}},
    {.name = "a start needs pages for the prompt and one token",
     .sequences = {waiting(32)},
     .pool = {2, 1},
     .limits = kLimits},
    {.name = "nobody overtakes who waits for memory",
     .sequences = {waiting(100), waiting(5)},
     .pool = {6, 4},
     .limits = kLimits},
    {.name = "pages of older ones come off before a start",
     .sequences = {running(17, 16, 1), waiting(5)},
     .pool = {1, 4},
     .limits = kLimits,
     .rows = {{0, 1, false}}},
    {.name = "the youngest gives way",
     .sequences = {running(17, 16, 1), running(9, 8), running(200, 100), waiting(4)},
     .pool = {0, 1},
     .limits = kLimits,
     .preempt = 2},
    {.name = "the youngest gives way to itself when it is the one in need",
     .sequences = {running(9, 8), running(17, 16, 1)},
     .pool = {0, 1},
     .limits = kLimits,
     .preempt = 1},
};

TEST(Scheduler, Cases) {
  for (const Case& item : kCases) {
    SCOPED_TRACE(item.name);
    const Decision decision = decide(item.sequences, item.pool, item.limits);
    EXPECT_EQ(decision.rows, item.rows);
    EXPECT_EQ(decision.preempt, item.preempt);
  }
}

// Sequences with lengths and nothing else, over counted pages and slots.
class Simulator {
 public:
  struct Sizes {
    SchedulerLimits limits;
    int64_t pages = 0, context = 0, marks = 1 << 20;
    int32_t slots = 0;
  };
  Simulator(const Sizes& sizes, uint32_t seed)
      : sizes_(sizes), random_(seed), pages_(sizes.pages), slots_(sizes.slots) {}

  struct Sequence {
    int64_t tokens, held = 0, pages = 0, answer;
    bool running = false;
    int32_t priority = 0;
  };

  void arrive() {
    const int64_t prompt = 1 + below(sizes_.context);
    Sequence sequence{.tokens = prompt, .answer = 1 + below(200), .priority = static_cast<int32_t>(below(3))};
    const auto behind = [&](const Sequence& other) { return other.priority > sequence.priority; };
    list_.insert(std::ranges::find_if(list_, behind), sequence);
  }

  void step() {
    const Decision decision = settle();
    int64_t rows = 0, single = 0, others = 0;
    ASSERT_FALSE(decision.rows.empty());
    const bool first = list_[0].running;
    const auto answers = std::ranges::count_if(
        list_, [](const Sequence& sequence) { return sequence.running && sequence.tokens - sequence.held == 1; });
    std::vector<size_t> proceed;
    for (const RowRange& range : decision.rows) {
      Sequence& sequence = list_[range.index];
      ASSERT_TRUE(range.count > 0 && range.count <= sizes_.limits.chunk);
      ASSERT_LE(range.count, sequence.tokens - sequence.held);
      ASSERT_EQ(range.starts, !sequence.running);
      if (range.starts) --slots_, sequence.running = true;
      take_pages(sequence, StatePool::pages_for(range.starts ? room(sequence) : sequence.tokens));
      const bool answer = !range.starts && sequence.tokens - sequence.held == 1;
      rows += range.count, (answer ? single : others) += range.count;
      const int64_t end = sequence.held + range.count;
      ASSERT_TRUE(!sizes_.limits.strict || end % 64 == 0 || end == sequence.tokens || end == until(sequence));
      ASSERT_LE(end, until(sequence));
      proceed.push_back(range.index);
      sequence.held = end;
      if (sequence.held == sequence.tokens) ++sequence.tokens, --sequence.answer;
    }
    ASSERT_LE(rows, sizes_.limits.step_tokens);
    ASSERT_EQ(single, answers) << "contract 20: an answer does not proceed";
    ASSERT_TRUE(answers == 0 || others <= sizes_.limits.beside_answers);
    std::ranges::sort(proceed);
    ASSERT_EQ(std::unique(proceed.begin(), proceed.end()), proceed.end());
    ASSERT_TRUE(!first || proceed[0] == 0) << "contract 11: the first does not proceed";
    ASSERT_TRUE(pages_ >= 0 && slots_ >= 0) << pages_ << " pages, " << slots_ << " slots";
    ASSERT_LE(std::ranges::count_if(list_, &Sequence::running), sizes_.limits.sequences);
    for (Sequence& sequence : list_)
      if (done(sequence)) release(sequence), ++finished_;
    std::erase_if(list_, [&](const Sequence& sequence) { return done(sequence); });
  }

  size_t unfinished() const { return list_.size(); }
  int64_t finished() const { return finished_; }
  int64_t preempted() const { return preempted_; }
  bool all_free() const { return pages_ == sizes_.pages && slots_ == sizes_.slots; }
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }

 private:
  // Marks are due at some places.
  int64_t until(const Sequence& sequence) const { return (sequence.held / sizes_.marks + 1) * sizes_.marks; }
  int64_t room(const Sequence& sequence) const { return std::min(sequence.tokens + 1, sizes_.context); }
  bool done(const Sequence& sequence) const { return sequence.answer == 0 || sequence.tokens > sizes_.context; }

  // Asks, and preempts, until rows are decided.
  Decision settle() {
    for (;;) {
      std::vector<SequenceView> views;
      for (const Sequence& sequence : list_) {
        const int64_t length = sequence.running ? sequence.tokens : room(sequence);
        views.push_back({.tokens = sequence.tokens,
                         .held = sequence.held,
                         .missing_pages = std::max<int64_t>(StatePool::pages_for(length) - sequence.pages, 0),
                         .until = until(sequence),
                         .priority = sequence.priority,
                         .running = sequence.running});
      }
      Decision decision = decide(views, {.free_pages = pages_, .free_slots = slots_}, sizes_.limits);
      if (!decision.preempt) return decision;
      EXPECT_NE(*decision.preempt, 0u) << "contract 11: the first is preempted";
      EXPECT_TRUE(list_[*decision.preempt].running);
      release(list_[*decision.preempt]);
      ++preempted_;
    }
  }

  void take_pages(Sequence& sequence, int64_t pages) {
    pages_ -= std::max<int64_t>(pages - sequence.pages, 0);
    sequence.pages = std::max(sequence.pages, pages);
  }
  void release(Sequence& sequence) {
    pages_ += sequence.pages;
    slots_ += sequence.running ? 1 : 0;
    sequence.pages = sequence.held = 0;
    sequence.running = false;
  }

  Sizes sizes_;
  std::mt19937 random_;
  int64_t pages_;
  int32_t slots_;
  std::deque<Sequence> list_;
  int64_t finished_ = 0, preempted_ = 0;
};

void simulate(uint32_t seeds) {
  int64_t steps = 0, preempted = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const auto between = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
    Simulator::Sizes sizes{.limits = {.chunk = between(1, 150), .sequences = between(1, 12)}};
    sizes.limits.step_tokens = std::max(between(1, 300), sizes.limits.sequences);
    sizes.limits.strict = between(0, 1) == 1;
    if (sizes.limits.strict) sizes.limits.chunk += 64, sizes.limits.step_tokens += 64 + sizes.limits.sequences;
    if (between(0, 1) == 1) sizes.limits.beside_answers = 64 + between(0, 100);
    if (between(0, 1) == 1) sizes.marks = between(1, 100);
    sizes.context = between(1, 400);
    sizes.pages = StatePool::pages_for(sizes.context) * between(1, 6);
    sizes.slots = between(1, 12);
    Simulator simulator(sizes, seed);
    for (int step = 0; step < 2000; ++step, ++steps) {
      if (simulator.unfinished() == 0 || (simulator.unfinished() < 30 && simulator.below(8) == 0)) simulator.arrive();
      simulator.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    // With no more arrivals everything ends: the first computes a row a step at least, and is never preempted.
    int64_t bound = static_cast<int64_t>(simulator.unfinished()) * sizes.context;
    for (; simulator.unfinished() > 0; ++steps) {
      ASSERT_GT(bound--, 0);
      simulator.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_TRUE(simulator.all_free());
    EXPECT_GT(simulator.finished(), 0);
    preempted += simulator.preempted();
  }
  EXPECT_GT(steps, 2000 * seeds);
  EXPECT_GT(preempted, 20 * seeds);
}

TEST(Scheduler, SimulatedLoadsKeepTheirLimitsAndFinish) { simulate(50); }
// Part of `make soak`.
TEST(Scheduler, DISABLED_AMillionStepsKeepTheirLimits) { simulate(500); }

}  // namespace
}  // namespace braid
