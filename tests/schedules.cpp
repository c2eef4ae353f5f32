// The bundled model under a deterministic engine: the same tokens alone, among others, from the cache, in any chunks,
// after preemption and after a restart.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "api/model.h"
#include "engine/engine.h"

namespace braid::tests {
namespace {

using Tokens = std::vector<int32_t>;

class Schedules : public ::testing::Test {
 protected:
  Schedules() {
    std::mt19937 random(3);
    for (int i = 0; i < 32; ++i) {
      Tokens prompt(static_cast<size_t>(1 + random() % 300));
      for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 6000);
      // Some begin like the one before.
      if (i % 3 == 1) prompt.insert(prompt.begin(), prompts_.back().begin(), prompts_.back().end());
      prompts_.push_back(prompt);
    }
    alone_ = each();
  }

  EngineOptions options(int32_t sequences, int64_t chunk) {
    return {.context = 1024,
            .steps = {.step_tokens = 512, .chunk = chunk, .sequences = sequences},
            .allowed = allowed_tokens(model_),
            .cache_bytes = int64_t{1} << 28,
            .deterministic = true};
  }
  // One after the other, each in a cold cache.
  std::vector<Tokens> each() {
    EngineOptions with = options(1, 512);
    with.cache_bytes = 0;
    Engine engine(model_.loaded(), with);
    std::vector<Tokens> answers;
    for (const Tokens& prompt : prompts_) answers.push_back(ask(engine, {prompt})[0]);
    return answers;
  }
  std::vector<Tokens> ask(Engine& engine, const std::vector<Tokens>& prompts) {
    std::vector<Tokens> answers(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i)
      engine.submit({.tokens = prompts[i],
                     .sampling = {.temperature = 0},
                     .max_tokens = 24,
                     .on_event = [&answers, i](const Event& event) {
                       if (!event.finish) answers[i].push_back(event.token);
                       return Verdict::Continue;
                     }});
    engine.run_until_idle();
    engine.check_integrity();
    return answers;
  }

  OpenModel model_ = open_model({.model = BRAID_SOURCE_DIR "/models/pocket", .context = 1024});
  std::vector<Tokens> prompts_, alone_;
};

TEST_F(Schedules, GreedyAnswersDependOnNothingButTheirPrompt) {
  for (const int64_t chunk : {64, 128, 512}) {
    SCOPED_TRACE(chunk);
    Engine engine(model_.loaded(), options(32, chunk));
    EXPECT_EQ(ask(engine, prompts_), alone_) << "together";
    EXPECT_EQ(ask(engine, prompts_), alone_) << "from the cache";
    EXPECT_GT(engine.load().counts.cached_tokens, 1000);
  }
  EngineOptions tight = options(8, 128);
  tight.state = {.pages = 70, .slots = 8};
  tight.cache_bytes = 10 << 20;
  Engine engine(model_.loaded(), tight);
  EXPECT_EQ(ask(engine, prompts_), alone_) << "preempted";
  EXPECT_GT(engine.load().counts.preemptions, 0);

  EngineOptions kept = options(4, 512);
  kept.cache_folder = std::filesystem::path(::testing::TempDir()) / "braid_schedules";
  std::filesystem::remove_all(kept.cache_folder);
  for (const char* when : {"before", "after a restart"}) {
    Engine again(model_.loaded(), kept);
    EXPECT_EQ(ask(again, prompts_), alone_) << when;
    again.drain();
    EXPECT_GT(again.load().counts.cached_tokens, std::string(when) == "before" ? 0 : 1000);
  }
  std::filesystem::remove_all(kept.cache_folder);
}

}  // namespace
}  // namespace braid::tests
