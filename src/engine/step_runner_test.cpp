// SPDX-License-Identifier: Apache-2.0
#include "engine/step_runner.h"

#include <gtest/gtest.h>

#include "cpu/executor.h"
#include "engine/tiny_model_test.h"
#include "engine/transfer.h"
#include "ops/wrappers/recording.h"
#include "reference/executor.h"

namespace braid {
namespace {

constexpr int64_t kContext = 600;

// A few sequences of different lengths that are decoded together, with given tokens.
class Decoding {
 public:
  Decoding(TinyModel& model, Executor& executor, bool poison)
      : pool_(executor, model.spec.needs, {.pages = 3 * StatePool::pages_for(kContext), .slots = 3}),
        runner_({executor, model.spec, model.weights}, pool_,
                {.limits = {.tokens = 64, .sequences = 3, .heads = 3, .context = kContext}, .poison = poison}),
        executor_(executor) {
    for (uint32_t i = 0; i < 3; ++i) {
      states_.push_back(pool_.acquire());
      run({i}, {random_tokens(10 + 20 * i, i)});
    }
  }

  std::vector<float> run(const std::vector<uint32_t>& which, const std::vector<std::vector<int32_t>>& tokens) {
    std::vector<SequenceRows> rows;
    for (size_t i = 0; i < which.size(); ++i) {
      SequenceState& state = states_[which[i]];
      EXPECT_TRUE(pool_.grow(state, state.length + std::ssize(tokens[i])));
      rows.push_back({.state = &state, .tokens = tokens[i], .heads = {std::ssize(tokens[i]) - 1}});
    }
    std::vector<float> logits;
    runner_.run(rows, [&](const Pass& pass) { logits = download_floats(executor_, pass.outputs.logits); });
    for (size_t i = 0; i < which.size(); ++i)
      pool_.commit(states_[which[i]], states_[which[i]].length + std::ssize(tokens[i]));
    return logits;
  }

 private:
  StatePool pool_;
  StepRunner runner_;
  Executor& executor_;
  std::vector<SequenceState> states_;
};

// Steps of changing batches, past the borders of extents.
std::vector<std::vector<float>> decode(TinyModel& model, Executor& executor, bool poison) {
  Decoding decoding(model, executor, poison);
  std::vector<std::vector<float>> logits;
  std::mt19937 random(7);
  for (int step = 0; step < 60; ++step) {
    std::vector<uint32_t> which;
    std::vector<std::vector<int32_t>> tokens;
    for (uint32_t i = 0; i < 3; ++i)
      if (random() % 4 != 0) {
        which.push_back(i);
        tokens.push_back(random_tokens(step % 20 == 19 ? 60 / 3 : 1, random()));
      }
    if (!which.empty()) logits.push_back(decoding.run(which, tokens));
  }
  return logits;
}

TEST(StepRunner, ReplayedStepsAreTheStepsThemselves) {
  for (const bool poison : {false, true})
    for (const bool cpu : {false, true}) {
      TinyModel model(cpu ? make_cpu_executor({.threads = 2}) : make_reference_executor());
      const auto plain = decode(model, *model.executor, poison);
      RecordingExecutor recording(*model.executor);
      EXPECT_EQ(decode(model, recording, poison), plain);
      EXPECT_GT(recording.recorded(), 2);
      EXPECT_GT(recording.replayed(), 20);
    }
}

TEST(StepRunner, ARefusedReplayRunsOpByOpAndIsRecordedAgain) {
  TinyModel model(make_reference_executor());
  const auto plain = decode(model, *model.executor, false);
  RecordingExecutor recording(*model.executor);
  recording.refuse_replays(true);
  EXPECT_EQ(decode(model, recording, false), plain);
  EXPECT_EQ(recording.replayed(), 0);
  EXPECT_GT(recording.recorded(), 10);
}

}  // namespace
}  // namespace braid
