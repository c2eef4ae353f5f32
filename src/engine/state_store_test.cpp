// SPDX-License-Identifier: Apache-2.0
#include "engine/state_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "cpu/executor.h"
#include "engine/engine.h"
#include "engine/tiny_model_test.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

class StateStoreTest : public ::testing::Test {
 protected:
  StateStoreTest()
      : folder_(fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~StateStoreTest() override { fs::remove_all(folder_); }

  EngineOptions options(const std::string& identity = "tiny") {
    return {.context = 400,
            .steps = {.step_tokens = 200, .chunk = 128, .sequences = 2},
            .cache_bytes = int64_t{1} << 28,
            .deterministic = true,
            .cache_folder = folder_,
            .identity = identity,
            .poison = true};
  }
  struct Answer {
    std::vector<int32_t> tokens;
    Usage usage;
  };
  Answer ask(Engine& engine, std::vector<int32_t> prompt) {
    Answer answer;
    engine.submit({.tokens = std::move(prompt),
                   .sampling = {.temperature = 0},
                   .max_tokens = 20,
                   .on_event = [&](const Event& event) {
                     if (!event.finish) answer.tokens.push_back(event.token);
                     if (event.usage) answer.usage = *event.usage;
                     return Verdict::Continue;
                   }});
    engine.run_until_idle();
    engine.check_integrity();
    return answer;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  fs::path folder_;
  TinyModel model_{make_cpu_executor({.threads = 1})};
  std::vector<int32_t> prompt_ = random_tokens(300, 1);
};

TEST_F(StateStoreTest, WhatWasKeptSurvivesTheEngine) {
  Answer cold;
  {
    Engine engine(model_.loaded(), options());
    cold = ask(engine, prompt_);
    EXPECT_EQ(cold.usage.cached, 0);
    engine.drain();
  }
  EXPECT_FALSE(files().empty());
  Engine engine(model_.loaded(), options());
  const Answer warm = ask(engine, prompt_);
  EXPECT_EQ(warm.usage.cached, 256);
  EXPECT_EQ(warm.tokens, cold.tokens);
}

TEST_F(StateStoreTest, WhatCannotBeUsedIsDiscarded) {
  Answer cold;
  {
    Engine engine(model_.loaded(), options());
    cold = ask(engine, prompt_);
    engine.drain();
  }
  const std::vector<fs::path> before = files();
  for (size_t i = 0; i < before.size(); ++i) {
    std::fstream file(before[i], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(before[i]) / 2));
    file.put('\x55');
  }
  std::ofstream(folder_ / "half.state") << "BRAIDST1";
  std::ofstream(folder_ / "left.state.part") << "half";
  {
    Engine engine(model_.loaded(), options());
    const Answer again = ask(engine, prompt_);
    EXPECT_EQ(again.usage.cached, 0);
    EXPECT_EQ(again.tokens, cold.tokens);
    engine.drain();
  }
  EXPECT_FALSE(fs::exists(folder_ / "left.state.part"));
  Engine other(model_.loaded(), options("another model"));
  EXPECT_EQ(ask(other, prompt_).usage.cached, 0);
}

TEST_F(StateStoreTest, AFullDiskIsSaidOnceAndAnswersGoOn) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 100, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  {
    Engine engine(model_.loaded(), options());
    const Answer first = ask(engine, prompt_), second = ask(engine, prompt_);
    EXPECT_EQ(second.usage.cached, 256);
    EXPECT_EQ(first.tokens, second.tokens);
    engine.drain();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(files().empty());
}

TEST_F(StateStoreTest, ASessionGoesToAFileAndComesBack) {
  EngineOptions with = options();
  with.cache_folder.clear();
  const fs::path file = folder_ / "session";
  Answer cold;
  {
    Engine engine(model_.loaded(), with);
    cold = ask(engine, prompt_);
    EXPECT_EQ(engine.save_session(prompt_, file), 256);
    EXPECT_EQ(engine.save_session(random_tokens(9, 7), folder_ / "none"), 0);
  }
  Engine engine(model_.loaded(), with);
  EXPECT_EQ(engine.restore_session(file), std::vector(prompt_.begin(), prompt_.begin() + 256));
  const Answer warm = ask(engine, prompt_);
  EXPECT_EQ(warm.usage.cached, 256);
  EXPECT_EQ(warm.usage.computed, 44 + 19);
  EXPECT_EQ(warm.tokens, cold.tokens);
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_THROW(engine.restore_session(file), Error);
}

}  // namespace
}  // namespace braid
