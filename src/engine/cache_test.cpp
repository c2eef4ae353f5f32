// The prefix cache as requests meet it: what is reused, that it changes no answer, and that nothing is lost.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "cpu/executor.h"
#include "engine/engine.h"
#include "engine/tiny_model_test.h"
#include "reference/executor.h"

namespace braid {
namespace {

using Tokens = std::vector<int32_t>;

struct Answer {
  Tokens tokens;
  std::vector<float> logprobs;
  std::vector<PromptLogprob> prompt;
  std::optional<FinishReason> finish;
  Usage usage;
};

// Answers of one engine, by request.
struct Answers {
  std::map<RequestId, Answer> list;
  RequestId submit(Engine& engine, Request request) {
    request.on_event = [this](const Event& event) {
      Answer& answer = list[event.request];
      EXPECT_FALSE(answer.finish) << "an event after the last one";
      if (!event.finish) answer.tokens.push_back(event.token), answer.logprobs.push_back(event.logprob);
      for (const PromptLogprob& token : event.prompt_logprobs) answer.prompt.push_back(token);
      if (event.usage) answer.usage = *event.usage;
      answer.finish = event.finish;
      return Verdict::Continue;
    };
    return engine.submit(std::move(request));
  }
};

void run(Engine& engine) {
  while (engine.step()) {
    engine.check_integrity();
    const PrefixCache::Stats stats = engine.load().cache;
    EXPECT_LE(stats.bytes, stats.budget);
  }
  engine.check_integrity();
  EXPECT_EQ(engine.pool().free_pages() + engine.pool().kept_pages(), engine.pool().limits().pages);
}

Request greedy(Tokens tokens, int64_t answer = 9) {
  return {.tokens = std::move(tokens), .sampling = {.temperature = 0}, .max_tokens = answer};
}

Tokens joined(Tokens first, const Tokens& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class CacheTest : public ::testing::Test {
 protected:
  explicit CacheTest(std::unique_ptr<Executor> executor = make_reference_executor()) : model_(std::move(executor)) {}
  EngineOptions options(int32_t sequences = 4) {
    return {.context = 400,
            .steps = {.step_tokens = 200, .chunk = 128, .sequences = sequences},
            .seed = 5,
            .cache_bytes = int64_t{1} << 30,
            .poison = true};
  }
  Answer ask(Engine& engine, Request request) {
    Answers answers;
    const RequestId id = answers.submit(engine, std::move(request));
    run(engine);
    return answers.list[id];
  }
  // In an engine of its own, without a cache.
  Answer cold(const Request& request, bool deterministic = false) {
    EngineOptions with = options(1);
    with.cache_bytes = 0, with.deterministic = deterministic;
    Engine engine(model_.loaded(), with);
    return ask(engine, request);
  }
  void expect_same(const Answer& found, const Answer& expected) {
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.logprobs, expected.logprobs);
    EXPECT_EQ(found.finish, expected.finish);
  }
  TinyModel model_;
};

TEST_F(CacheTest, AnAppendedTurnComputesNothingAgain) {
  Engine engine(model_.loaded(), options());
  Tokens text = random_tokens(50, 1);
  for (int turn = 0; turn < 10; ++turn) {
    const Answer answer = ask(engine, greedy(text));
    expect_same(answer, cold(greedy(text)));
    if (turn > 0) {
      // All that the turn before held: everything but its last token, which was drawn and not computed.
      EXPECT_EQ(answer.usage.cached, std::ssize(text) - 21);
      EXPECT_EQ(answer.usage.computed, 21 + 8);
      EXPECT_EQ(answer.usage.limit, CacheLimit::Unknown);
    }
    EXPECT_EQ(answer.usage.prompt, std::ssize(text));
    EXPECT_EQ(answer.usage.answered, 9);
    text = joined(joined(text, answer.tokens), random_tokens(20, 100 + static_cast<uint32_t>(turn)));
  }
}

TEST_F(CacheTest, StateIsKeptAtTheBordersOfARequest) {
  Engine engine(model_.loaded(), options());
  const Tokens system = random_tokens(70, 1);
  Request first = greedy(joined(system, random_tokens(30, 2)));
  first.borders = {70, 100, 500, -3, 0};
  ask(engine, first);
  const Request second = greedy(joined(system, random_tokens(25, 3)));
  const Answer answer = ask(engine, second);
  EXPECT_EQ(answer.usage.cached, 70);
  EXPECT_GE(answer.usage.known, 70);
  expect_same(answer, cold(second));
}

TEST_F(CacheTest, WhereTwoPromptsPartedAThirdOneBegins) {
  Engine engine(model_.loaded(), options());
  const Tokens shared = random_tokens(150, 1);
  ask(engine, greedy(joined(shared, random_tokens(100, 2))));
  const Answer second = ask(engine, greedy(joined(shared, random_tokens(100, 3))));
  EXPECT_EQ(second.usage.cached, 0);
  EXPECT_GE(second.usage.known, 150);
  EXPECT_EQ(second.usage.limit, CacheLimit::Dropped);
  EXPECT_EQ(ask(engine, greedy(joined(shared, random_tokens(100, 4)))).usage.cached, 128);
}

TEST_F(CacheTest, TheSamePromptAgainComputesItsLastToken) {
  Engine engine(model_.loaded(), options());
  const Request request = greedy(random_tokens(290, 1));
  ask(engine, request);
  const Answer again = ask(engine, request);
  EXPECT_EQ(again.usage.cached, 289);
  EXPECT_EQ(again.usage.computed, 1 + 8);
  EXPECT_EQ(again.usage.limit, CacheLimit::None);
  expect_same(again, cold(request));
}

TEST_F(CacheTest, TheSamePromptAgainComputesWhatFollowsItsLastBorder) {
  Engine engine(model_.loaded(), options());
  Request request = greedy(random_tokens(290, 1));
  request.borders = {285};
  ask(engine, request);
  for (const int64_t cached : {285, 289, 289}) {
    const Answer again = ask(engine, request);
    EXPECT_EQ(again.usage.cached, cached);
    expect_same(again, cold(request));
  }
}

// Marks that the budget cannot hold even alone do not push the others out.
TEST_F(CacheTest, OfAPromptBeyondTheBudgetTheBeginningIsKept) {
  EngineOptions with = options();
  Engine measured(model_.loaded(), with);
  const StatePool& pool = measured.pool();
  with.cache_interval = 64;
  with.cache_bytes = static_cast<int64_t>(pool.slot_bytes() + StatePool::pages_for(192) * pool.page_bytes());
  Engine engine(model_.loaded(), with);
  const Request request = greedy(random_tokens(390, 1));
  ask(engine, request);
  const Answer again = ask(engine, request);
  EXPECT_EQ(again.usage.cached, 192);
  expect_same(again, cold(request));
}

TEST_F(CacheTest, SamePromptsAtOnceAreComputedOnce) {
  Engine engine(model_.loaded(), options(8));
  Answers answers;
  Request request = greedy(random_tokens(290, 1));
  request.sampling = {.temperature = 1.5f};
  std::vector<RequestId> ids;
  for (uint64_t i = 0; i < 6; ++i) {
    request.sampling.seed = i;
    ids.push_back(answers.submit(engine, request));
  }
  run(engine);
  int64_t cached = 0;
  for (uint64_t i = 0; i < 6; ++i) {
    request.sampling.seed = i;
    expect_same(answers.list[ids[i]], cold(request));
    cached += answers.list[ids[i]].usage.cached;
  }
  EXPECT_EQ(cached, 5 * 256);
}

TEST_F(CacheTest, OffMeansOff) {
  Engine engine(model_.loaded(), options());
  Request request = greedy(random_tokens(100, 1));
  ask(engine, request);
  request.use_cache = false;
  const Answer answer = ask(engine, request);
  EXPECT_EQ(answer.usage.cached, 0);
  EXPECT_EQ(answer.usage.limit, CacheLimit::Off);
  EXPECT_EQ(engine.load().counts.limits[static_cast<size_t>(CacheLimit::Off)], 1);
}

TEST_F(CacheTest, LogprobsOfThePromptAreThoseOfItsTokens) {
  Engine engine(model_.loaded(), options());
  Request request = greedy(random_tokens(90, 1), 40);
  const Answer drawn = ask(engine, request);
  Request scored = greedy(joined(request.tokens, drawn.tokens), 3);
  scored.prompt_logprobs = 4;
  const Answer other = ask(engine, scored);
  ASSERT_EQ(other.prompt.size(), scored.tokens.size() - 1);
  EXPECT_EQ(other.usage.cached, 0);
  EXPECT_EQ(other.usage.limit, CacheLimit::Logprobs);
  // One in float from the executor, one in double here: they differ by a rounding of either.
  for (size_t i = 0; i < drawn.tokens.size(); ++i) {
    const PromptLogprob& token = other.prompt[request.tokens.size() - 1 + i];
    EXPECT_FLOAT_EQ(token.logprob, drawn.logprobs[i]);
    ASSERT_EQ(token.top.size(), 4u);
    EXPECT_EQ(token.top[0].token, drawn.tokens[i]);
  }
  Answers answers;
  std::vector<RequestId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(answers.submit(engine, scored));
  run(engine);
  for (const RequestId id : ids) EXPECT_EQ(answers.list[id].prompt.size(), other.prompt.size());
}

TEST_F(CacheTest, NothingIsAnsweredWhereNothingIsAsked) {
  Engine engine(model_.loaded(), options());
  const Answer answer = ask(engine, greedy(random_tokens(100, 1), 0));
  EXPECT_EQ(answer.tokens.size(), 0u);
  EXPECT_EQ(answer.finish, FinishReason::Length);
  EXPECT_EQ(ask(engine, greedy(joined(random_tokens(100, 1), {3}))).usage.cached, 100);
}

TEST_F(CacheTest, TooManyWaitingAreRefused) {
  EngineOptions with = options(1);
  with.max_waiting = 2;
  Engine engine(model_.loaded(), with);
  Answers answers;
  answers.submit(engine, greedy(random_tokens(10, 1)));
  engine.step();
  answers.submit(engine, greedy(random_tokens(10, 1)));
  answers.submit(engine, greedy(random_tokens(10, 1)));
  try {
    answers.submit(engine, greedy(random_tokens(10, 1)));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
  }
  run(engine);
  EXPECT_EQ(answers.list.size(), 3u);
}

TEST_F(CacheTest, HigherPrioritiesAreServedFirst) {
  Engine engine(model_.loaded(), options(1));
  Answers answers;
  std::vector<RequestId> ends;
  const auto asked = [&](int32_t priority) {
    Request request = greedy(random_tokens(30, static_cast<uint32_t>(priority) + 7));
    request.priority = priority;
    request.on_event = [&ends](const Event& event) {
      if (event.finish) ends.push_back(event.request);
      return Verdict::Continue;
    };
    return engine.submit(std::move(request));
  };
  const RequestId late = asked(5), middle = asked(1);
  engine.step();
  const RequestId first = asked(-1);
  run(engine);
  EXPECT_EQ(ends, (std::vector<RequestId>{first, middle, late}));
  EXPECT_EQ(engine.load().counts.preemptions, 1);
}

// Random requests over a few texts, some of which go on from answers, some cancelled, under every kind of shortage:
// each answers as it does alone and cold.
class RandomSchedule {
 public:
  RandomSchedule(const LoadedModel& model, EngineOptions with, uint32_t seed)
      : random_(seed), options_(shorten(std::move(with))), engine_(model, options_) {
    for (uint32_t i = 0; i < 3; ++i) texts_.push_back(random_tokens(40 + below(150), 1000 + seed * 10 + i));
  }

  void run_to_end() {
    for (int step = 0; step < 120; ++step) {
      if (below(3) == 0) submit();
      if (below(12) == 0 && !requests_.empty())
        engine_.cancel(1 + static_cast<RequestId>(below(std::ssize(requests_))));
      engine_.step();
      engine_.check_integrity();
    }
    run(engine_);
  }
  const std::map<RequestId, Request>& requests() const { return requests_; }
  const std::map<RequestId, Answer>& answers() const { return answers_.list; }
  const Engine& engine() const { return engine_; }

 private:
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }

  EngineOptions shorten(EngineOptions with) {
    constexpr int64_t kChunks[] = {64, 128, 512};
    with.steps.sequences = static_cast<int32_t>(1 + below(6));
    with.steps.chunk = kChunks[below(3)];
    with.steps.step_tokens = 80 + below(300);
    with.state = {.pages = StatePool::pages_for(with.context) * (1 + below(3)),
                  .slots = with.steps.sequences + static_cast<int32_t>(below(4))};
    constexpr int64_t kBytes[] = {0, 20'000, 200'000, 10'000'000};
    with.cache_bytes = kBytes[below(4)];
    with.cache_interval = 64 * (1 + below(4));
    return with;
  }

  void submit() {
    Tokens tokens = texts_[static_cast<size_t>(below(3))];
    tokens.resize(static_cast<size_t>(1 + below(std::ssize(tokens))));
    if (below(2) == 0 && !answers_.list.empty()) {  // goes on from an answer
      const auto any = std::next(answers_.list.begin(), below(std::ssize(answers_.list)));
      tokens = joined(requests_.at(any->first).tokens, any->second.tokens);
    }
    tokens = joined(tokens, random_tokens(1 + below(20), static_cast<uint32_t>(random_())));
    if (std::ssize(tokens) > 300) tokens.resize(300);
    Request request = greedy(tokens, 1 + below(60));
    if (below(2) == 0) request.sampling = {.temperature = 1.3f, .top_p = 0.95f, .seed = random_()};
    request.priority = static_cast<int32_t>(below(3));
    for (int64_t i = below(3); i > 0; --i) request.borders.push_back(below(std::ssize(tokens)));
    requests_[answers_.submit(engine_, request)] = request;
  }

  std::mt19937 random_;
  EngineOptions options_;
  Engine engine_;
  std::vector<Tokens> texts_;
  std::map<RequestId, Request> requests_;
  Answers answers_;
};

class ScheduleTest : public CacheTest {
 protected:
  using CacheTest::CacheTest;
  ScheduleTest() = default;
  void compare(uint32_t first, uint32_t last, bool deterministic) {
    int64_t hits = 0, preemptions = 0, parked = 0, whole = 0;
    for (uint32_t seed = first; seed < last; ++seed) {
      SCOPED_TRACE(seed);
      EngineOptions with = options();
      with.deterministic = deterministic;
      RandomSchedule schedule(model_.loaded(), with, seed);
      schedule.run_to_end();
      const Engine::Load load = schedule.engine().load();
      hits += load.counts.cached_tokens, preemptions += load.counts.preemptions, parked += load.counts.parked;
      for (const auto& [id, request] : schedule.requests()) {
        const Answer& found = schedule.answers().at(id);
        ASSERT_TRUE(found.finish);
        Answer expected = cold(request, deterministic);
        if (found.finish == FinishReason::Cancelled) {
          expected.finish = found.finish;
          expected.tokens.resize(found.tokens.size());
          expected.logprobs.resize(found.tokens.size());
        } else {
          ++whole;
        }
        expect_same(found, expected);
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(hits, 500);
    EXPECT_GT(preemptions, 5);
    EXPECT_GT(whole, 50);
  }
};

// The reference rounds the state after every token, so that no cut changes a bit.
TEST_F(ScheduleTest, OnTheReferenceEveryScheduleGivesTheSameAnswers) { compare(0, 4, false); }

class CpuScheduleTest : public ScheduleTest {
 protected:
  CpuScheduleTest() : ScheduleTest(make_cpu_executor({.threads = 2})) {}
};

TEST_F(CpuScheduleTest, ADeterministicEngineGivesTheSameAnswersInEverySchedule) { compare(100, 125, true); }

}  // namespace
}  // namespace braid
