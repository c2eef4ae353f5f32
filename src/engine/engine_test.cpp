// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/error.h"
#include "engine/tiny_model_test.h"
#include "ops/wrappers/passing.h"
#include "reference/executor.h"

namespace braid {
namespace {

// What a request was answered.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<std::vector<TokenLogprob>> top;
  std::optional<FinishReason> finish;
  int32_t stop_token = -1;
  std::string error;
};

class EngineTest : public ::testing::Test {
 protected:
  EngineOptions options(int32_t sequences = 4) {
    return {
        .context = 300, .steps = {.step_tokens = 96, .chunk = 64, .sequences = sequences}, .seed = 5, .poison = true};
  }

  Request request(int64_t prompt, uint32_t seed, int64_t answer = 12) {
    Request out{.tokens = random_tokens(prompt, seed), .max_tokens = answer};
    out.sampling.temperature = 0;
    return out;
  }
  Request sampled(int64_t prompt, uint32_t seed, int64_t answer = 12) {
    Request out = request(prompt, seed, answer);
    out.sampling = {.temperature = 1.3f, .top_k = 30, .top_p = 0.95f, .seed = seed + 100};
    return out;
  }

  // Submits with a callback that writes the answer down.
  RequestId submit(Engine& engine, Request request) {
    auto also = std::move(request.on_event);
    request.on_event = [this, also](const Event& event) {
      Answer& answer = answers_[event.request];
      EXPECT_FALSE(answer.finish) << "an event after the last one";
      if (event.finish) {
        answer.finish = event.finish, answer.error = event.error, answer.stop_token = event.token;
      } else {
        answer.tokens.push_back(event.token);
        answer.logprobs.push_back(event.logprob);
        answer.top.push_back(event.top);
      }
      return also ? also(event) : Verdict::Continue;
    };
    return engine.submit(std::move(request));
  }

  void run(Engine& engine) {
    while (engine.step()) engine.check_integrity();
    engine.check_integrity();
  }

  void expect_all_free(const Engine& engine) {
    EXPECT_EQ(engine.pool().free_pages() + engine.pool().kept_pages(), engine.pool().limits().pages);
    EXPECT_EQ(engine.load().running + engine.load().waiting, 0u);
  }

  Answer alone(Request request, EngineOptions with) {
    std::map<RequestId, Answer> others = std::exchange(answers_, {});  // ids are an engine's own
    Engine engine(model_.loaded(), std::move(with));
    const RequestId id = submit(engine, std::move(request));
    run(engine);
    return std::exchange(answers_, std::move(others))[id];
  }
  Answer alone(Request request) { return alone(std::move(request), options(1)); }

  // Exactly: the reference computes every row by itself and rounds the state after every token, so neither chunks nor
  // neighbours change a bit.
  void expect_same(const Answer& found, const Answer& expected) {
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.finish, expected.finish);
    EXPECT_EQ(found.stop_token, expected.stop_token);
    EXPECT_EQ(found.logprobs, expected.logprobs);
  }

  TinyModel model_{make_reference_executor()};
  std::map<RequestId, Answer> answers_;
};

TEST_F(EngineTest, ManyAtOnceAnswerAsEachAlone) {
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 9; ++i)
    requests.push_back(i % 2 == 0 ? request(1 + 17 * i, i, 10 + i) : sampled(1 + 17 * i, i, 10 + i));
  Engine engine(model_.loaded(), options(4));
  std::vector<RequestId> ids;
  for (const Request& item : requests) ids.push_back(submit(engine, item));
  run(engine);
  expect_all_free(engine);
  std::map<RequestId, Answer> together = std::exchange(answers_, {});
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(together[ids[i]], alone(requests[i]));
  }
}

TEST_F(EngineTest, ChunksDoNotChangeAnswers) {
  const Answer expected = alone(sampled(150, 3, 20));
  ASSERT_EQ(expected.tokens.size(), 20u);
  for (const int64_t chunk : {1, 7, 64, 300}) {
    SCOPED_TRACE(chunk);
    EngineOptions with = options(1);
    with.steps = {.step_tokens = 300, .chunk = chunk, .sequences = 1};
    expect_same(alone(sampled(150, 3, 20), with), expected);
  }
}

TEST_F(EngineTest, PreemptionDoesNotChangeAnswers) {
  EngineOptions tight = options(4);
  tight.state = {.pages = StatePool::pages_for(300), .slots = 4};
  Engine engine(model_.loaded(), tight);
  std::vector<Request> requests;
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 4; ++i) requests.push_back(sampled(60 + 3 * i, i, 100));
  requests[2].sampling.penalties = {.repetition = 1.2f, .frequency = 0.3f, .presence = 0.1f};
  for (const Request& item : requests) ids.push_back(submit(engine, item));
  run(engine);
  EXPECT_GT(engine.load().counts.preemptions, 2);
  expect_all_free(engine);
  std::map<RequestId, Answer> tightly = std::exchange(answers_, {});
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(tightly[ids[i]], alone(requests[i]));
  }
}

TEST_F(EngineTest, CancelFreesEverythingInEveryPhase) {
  for (int steps = 0; steps < 8; ++steps) {
    SCOPED_TRACE(steps);
    Engine engine(model_.loaded(), options(2));
    std::vector<RequestId> ids;
    for (uint32_t i = 0; i < 4; ++i) ids.push_back(submit(engine, request(150, i, 5)));
    for (int i = 0; i < steps; ++i) engine.step();
    for (const RequestId id : ids) engine.cancel(id);
    engine.cancel(77);
    EXPECT_FALSE(engine.step());
    engine.check_integrity();
    expect_all_free(engine);
    for (const RequestId id : ids) EXPECT_TRUE(answers_[id].finish);
    EXPECT_EQ(answers_[ids[3]].finish, FinishReason::Cancelled);
    answers_.clear();
  }
}

TEST_F(EngineTest, CancelledFromACallbackAnotherAnswerEnds) {
  Engine engine(model_.loaded(), options(2));
  const RequestId victim = submit(engine, request(20, 1, 200));
  Request killer = request(20, 2, 10);
  killer.on_event = [&](const Event&) {
    engine.cancel(victim);
    return Verdict::Continue;
  };
  const RequestId other = submit(engine, killer);
  run(engine);
  EXPECT_EQ(answers_[victim].finish, FinishReason::Cancelled);
  EXPECT_LE(answers_[victim].tokens.size(), 2u);
  EXPECT_EQ(answers_[other].finish, FinishReason::Length);
  expect_all_free(engine);
}

TEST_F(EngineTest, StopTokensEndAnAnswerAndAreItsLastEvent) {
  const Answer plain = alone(request(40, 8, 20));
  const int32_t stop = plain.tokens[6];
  const auto first = std::ranges::find(plain.tokens, stop) - plain.tokens.begin();
  Request asks = request(40, 8, 20);
  asks.stop_tokens = {stop};
  const Answer stopped = alone(asks);
  EXPECT_EQ(stopped.finish, FinishReason::Stop);
  EXPECT_EQ(stopped.stop_token, stop);
  EXPECT_EQ(stopped.tokens, std::vector(plain.tokens.begin(), plain.tokens.begin() + first));

  EngineOptions with = options(1);
  with.end_tokens = {stop};
  EXPECT_EQ(alone(request(40, 8, 20), with).tokens, stopped.tokens);
  Request ignores = request(40, 8, 20);
  ignores.ignore_end = true;
  EXPECT_EQ(alone(ignores, with).tokens, plain.tokens);

  Request longer = request(40, 8, 20);
  longer.min_tokens = first + 3;
  const Answer least = alone(longer, with);
  EXPECT_GE(std::ssize(least.tokens), first + 3);
  EXPECT_EQ(std::ranges::count(least.tokens, stop), 0);
}

TEST_F(EngineTest, AVerdictStopsTheAnswer) {
  Request asks = request(40, 8, 20);
  asks.on_event = [count = 0](const Event&) mutable { return ++count == 3 ? Verdict::Stop : Verdict::Continue; };
  const Answer stopped = alone(asks);
  EXPECT_EQ(stopped.finish, FinishReason::Stop);
  EXPECT_EQ(stopped.stop_token, -1);
  EXPECT_EQ(stopped.tokens.size(), 3u);
}

TEST_F(EngineTest, LimitsAndTheContextEndAnswers) {
  EXPECT_EQ(alone(request(40, 8, 1)).tokens.size(), 1u);
  EXPECT_EQ(alone(request(40, 8, 1)).finish, FinishReason::Length);
  Request open = request(290, 8);
  open.max_tokens.reset();
  const Answer full = alone(open);
  EXPECT_EQ(full.finish, FinishReason::Context);
  EXPECT_EQ(full.tokens.size(), 11u);  // the last one stands behind the context
  const Answer one = alone(request(300, 8, 5));
  EXPECT_EQ(one.finish, FinishReason::Context);
  EXPECT_EQ(one.tokens.size(), 1u);
}

TEST_F(EngineTest, WhatCannotBeServedIsRefusedInOneLine) {
  Engine engine(model_.loaded(), options(1));
  const auto refusal = [&](auto&& change) -> std::string {
    Request bad = request(5, 1);
    change(bad);
    try {
      engine.submit(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      return error.message();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([](Request& r) { r.tokens.clear(); }), "the prompt is empty");
  EXPECT_EQ(refusal([](Request& r) { r.tokens.resize(301); }), "the prompt has 301 tokens, the context holds 300");
  EXPECT_EQ(refusal([](Request& r) { r.tokens[2] = 50; }), "prompt: token 50 is outside of the vocabulary of 50");
  EXPECT_EQ(refusal([](Request& r) { r.tokens[2] = -1; }), "prompt: token -1 is outside of the vocabulary of 50");
  EXPECT_EQ(refusal([](Request& r) { r.max_tokens = -1; }), "max_tokens: expected at least 0, found -1");
  EXPECT_EQ(refusal([](Request& r) { r.logprobs = 21; }), "logprobs: expected 0 to 20, found 21");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.temperature = -1; }),
            "temperature: expected a number from 0, found -1");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.temperature = NAN; }),
            "temperature: expected a number from 0, found nan");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.top_p = 1.5; }), "top_p: expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(refusal([](Request& r) { r.sampling.penalties.repetition = 0; }),
            "repetition_penalty: expected a number above 0, found 0");
  EXPECT_EQ(refusal([](Request& r) {
              r.sampling.logit_bias = {{50, 1.0f}};
            }),
            "logit_bias: token 50 is outside of the vocabulary of 50");
  EXPECT_EQ(refusal([](Request& r) {
              r.sampling.logit_bias = {{1, INFINITY}};
            }),
            "logit_bias: expected a finite number or -infinity, found inf");
  EXPECT_FALSE(engine.step());
}

TEST_F(EngineTest, TokensThatTheTokenizerLacksAreNeverDrawn) {
  Request hot = sampled(30, 2, 250);
  hot.sampling = {.temperature = 30.0f, .seed = 9};
  hot.logprobs = kMaxLogprobs;
  const Answer free = alone(hot);
  EXPECT_TRUE(std::ranges::any_of(free.tokens, [](int32_t token) { return token >= 32; }));
  EngineOptions with = options(1);
  with.allowed = {0x7FFFFFF0};  // 4 to 30, and none of the second word
  const Answer masked = alone(hot, with);
  ASSERT_EQ(masked.tokens.size(), 250u);
  for (const int32_t token : masked.tokens) EXPECT_TRUE(token >= 4 && token < 31) << token;
  for (const auto& top : masked.top)
    for (const auto& [token, logprob] : top) EXPECT_TRUE(token >= 4 && token < 31) << token;
}

TEST_F(EngineTest, WithEveryTokenBannedTheRequestFailsAndOthersGoOn) {
  EngineOptions with = options(2);
  with.allowed = {0x6};
  Engine engine(model_.loaded(), with);
  Request barred = request(10, 1);
  barred.sampling.logit_bias = {{1, -INFINITY}, {2, -INFINITY}};
  const RequestId bad = submit(engine, barred), good = submit(engine, request(10, 2));
  run(engine);
  EXPECT_EQ(answers_[bad].finish, FinishReason::Error);
  EXPECT_EQ(answers_[bad].error, "no token can be drawn: every logit is masked or NaN");
  EXPECT_EQ(answers_[good].finish, FinishReason::Length);
  expect_all_free(engine);
}

TEST_F(EngineTest, LogprobsNameTheLikeliestTokens) {
  Request asks = request(40, 8, 10);
  asks.logprobs = 5;
  Engine engine(model_.loaded(), options(2));
  const RequestId five = submit(engine, asks), none = submit(engine, request(40, 8, 10));
  run(engine);
  EXPECT_EQ(answers_[five].tokens, answers_[none].tokens);
  for (size_t i = 0; i < 10; ++i) {
    const auto& top = answers_[five].top[i];
    ASSERT_EQ(top.size(), 5u);
    EXPECT_EQ(top[0], (TokenLogprob{answers_[five].tokens[i], answers_[five].logprobs[i]}));
    EXPECT_TRUE(std::ranges::is_sorted(top, std::greater{}, &TokenLogprob::logprob));
    EXPECT_TRUE(answers_[none].top[i].empty());
  }
}

TEST_F(EngineTest, PenaltiesAndBiasesChangeTheirOwnRowOnly) {
  Request plain = request(40, 8, 40), penalised = plain, pushed = plain;
  penalised.sampling.penalties = {.frequency = 100.0f};
  pushed.sampling.logit_bias = {{7, 1000.0f}};
  Engine engine(model_.loaded(), options(3));
  const RequestId a = submit(engine, plain), b = submit(engine, penalised), c = submit(engine, pushed);
  run(engine);
  EXPECT_EQ(answers_[c].tokens, std::vector<int32_t>(40, 7));
  std::vector<int32_t> distinct = answers_[b].tokens;
  std::ranges::sort(distinct);
  EXPECT_EQ(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const std::vector<int32_t> expected = answers_[a].tokens;
  EXPECT_EQ(alone(plain).tokens, expected);
}

TEST_F(EngineTest, SeedsAreReproducibleAndMissingOnesDiffer) {
  Request asks = sampled(20, 1, 30);
  EXPECT_EQ(alone(asks).tokens, alone(asks).tokens);
  asks.sampling.seed.reset();
  Engine engine(model_.loaded(), options(2));
  const RequestId a = submit(engine, asks), b = submit(engine, asks);
  run(engine);
  EXPECT_NE(answers_[a].tokens, answers_[b].tokens);
}

TEST_F(EngineTest, ErrorsOfCallbacksEndTheirRequestAlone) {
  Engine engine(model_.loaded(), options(2));
  Request bad = request(20, 1);
  bad.on_event = [count = 0](const Event& event) mutable -> Verdict {
    if (!event.finish && ++count == 4) throw std::runtime_error("pipe closed");
    return Verdict::Continue;
  };
  const RequestId failing = submit(engine, bad), other = submit(engine, request(20, 2));
  run(engine);
  EXPECT_EQ(answers_[failing].finish, FinishReason::Error);
  EXPECT_EQ(answers_[failing].error, "pipe closed");
  EXPECT_EQ(answers_[failing].tokens.size(), 4u);
  EXPECT_EQ(answers_[other].tokens.size(), 12u);
  expect_all_free(engine);
}

// Passes everything on to the reference until it is told to fail.
class FailingExecutor : public PassingExecutor {
 public:
  using PassingExecutor::PassingExecutor;
  void submit(const Op& op) override {
    if (std::holds_alternative<Linear>(op) && countdown > 0 && --countdown == 0)
      fail(ErrorKind::Internal, "linear: device lost");
    PassingExecutor::submit(op);
  }
  void download(std::span<std::byte> to, Tensor from) override {
    constexpr size_t kMostDrawn = 256;  // what is drawn takes fewer bytes than any state
    if (keeps_all && to.size() > kMostDrawn) fail(ErrorKind::Internal, "download: device lost");
    PassingExecutor::download(to, from);
  }
  int countdown = 0;
  bool keeps_all = false;
};

TEST_F(EngineTest, AStepThatFailsEndsItsRequestsAndNoMore) {
  FailingExecutor executor(*model_.executor);
  Engine engine({.executor = executor, .spec = model_.spec, .weights = model_.weights}, options(2));
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 3; ++i) ids.push_back(submit(engine, request(20, i)));
  engine.step();
  engine.step();
  executor.countdown = 3;
  run(engine);
  EXPECT_EQ(answers_[ids[0]].finish, FinishReason::Error);
  EXPECT_EQ(answers_[ids[0]].error, "linear: device lost");
  EXPECT_EQ(answers_[ids[1]].finish, FinishReason::Error);
  EXPECT_EQ(answers_[ids[2]].finish, FinishReason::Length);
  expect_all_free(engine);
  std::map<RequestId, Answer> found = std::exchange(answers_, {});
  expect_same(found[ids[2]], alone(request(20, 2)));
}

// State cannot be copied to host memory: for a sequence that has to give way, or for the cache.
TEST_F(EngineTest, WhatFailsBesideAStepEndsAllRequests) {
  FailingExecutor executor(*model_.executor);
  EngineOptions tight = options(4);
  tight.state = {.pages = StatePool::pages_for(300), .slots = 4};
  Engine engine({.executor = executor, .spec = model_.spec, .weights = model_.weights}, tight);
  std::vector<RequestId> ids;
  for (uint32_t i = 0; i < 4; ++i) ids.push_back(submit(engine, request(60 + 3 * i, i, 100)));
  executor.keeps_all = true;
  int64_t steps = 0;
  while (steps < 400 && engine.step()) ++steps;
  EXPECT_LT(steps, 400);
  for (const RequestId id : ids) EXPECT_EQ(answers_[id].error, "download: device lost");
  expect_all_free(engine);
  executor.keeps_all = false;
  const RequestId next = submit(engine, request(20, 9));
  run(engine);
  EXPECT_EQ(answers_[next].finish, FinishReason::Length);
}

TEST_F(EngineTest, RequestsMaySubmitRequests) {
  Engine engine(model_.loaded(), options(1));
  RequestId child = 0;
  Request parent = request(20, 1, 3);
  parent.on_event = [&](const Event& event) {
    if (event.finish) child = submit(engine, request(30, 2, 4));
    return Verdict::Continue;
  };
  submit(engine, parent);
  run(engine);
  EXPECT_EQ(answers_[child].tokens.size(), 4u);
}

}  // namespace
}  // namespace braid
