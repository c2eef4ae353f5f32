// SPDX-License-Identifier: Apache-2.0
#include "text/constraint.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

#include "engine/engine.h"
#include "engine/tiny_model_test.h"
#include "reference/executor.h"

namespace braid {
namespace {

// The answer is built from `letters` and has `least` to `most` of them.
class Letters : public TokenConstraint {
 public:
  Letters(std::set<int32_t> letters, int64_t least, int64_t most)
      : letters_(std::move(letters)), least_(least), most_(most) {}
  bool narrow(std::span<int32_t> words) override {
    if (std::ssize(accepted) == fail_at) throw std::runtime_error("the grammar is lost");
    for (size_t i = 0; i < words.size() * 32; ++i)
      if (!letters_.contains(static_cast<int32_t>(i))) words[i / 32] &= ~static_cast<int32_t>(1u << (i % 32));
    return true;
  }
  bool may_end() const override { return std::ssize(accepted) >= least_; }
  bool finished() const override { return std::ssize(accepted) >= most_; }
  void advance(int32_t token) override { accepted.push_back(token); }
  void rollback(int64_t tokens) override { accepted.resize(accepted.size() - static_cast<size_t>(tokens)); }
  std::vector<int32_t> accepted;
  int64_t fail_at = -1;

 private:
  std::set<int32_t> letters_;
  int64_t least_, most_;
};

struct Ended {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::Error;
  int32_t last = -1;
  std::string error;
};

class ConstraintTest : public ::testing::Test {
 protected:
  std::vector<Ended> answers(std::vector<Request> requests, std::vector<int32_t> ends = {}) {
    Engine engine(model_.loaded(), {.context = 300,
                                    .steps = {.step_tokens = 96, .chunk = 64, .sequences = 3},
                                    .allowed = {-1, 0xFFFF},
                                    .end_tokens = std::move(ends),
                                    .poison = true});
    std::vector<Ended> out(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].on_event = [&out, i](const Event& event) {
        if (!event.finish) out[i].tokens.push_back(event.token);
        if (event.finish) out[i].finish = *event.finish, out[i].last = event.token, out[i].error = event.error;
        return Verdict::Continue;
      };
      engine.submit(std::move(requests[i]));
    }
    while (engine.step()) engine.check_integrity();
    return out;
  }
  Request request(std::shared_ptr<TokenConstraint> constraint, uint32_t seed = 1) {
    return {.tokens = random_tokens(20, seed),
            .sampling = {.temperature = 5.0f, .seed = seed},
            .max_tokens = 40,
            .constraint = std::move(constraint)};
  }
  TinyModel model_{make_reference_executor()};
};

TEST_F(ConstraintTest, DrawsStayWithinTheSetOfTheirOwnRow) {
  const auto some = std::make_shared<Letters>(std::set<int32_t>{3, 40, 49}, 100, 100);
  const std::vector<Ended> plain = answers({request(nullptr, 2)});
  const std::vector<Ended> both = answers({request(some), request(nullptr, 2)});
  ASSERT_EQ(both[0].tokens.size(), 40u);
  std::set<int32_t> drawn(both[0].tokens.begin(), both[0].tokens.end());
  EXPECT_EQ(drawn, (std::set<int32_t>{3, 40}));  // the tokenizer has no 49
  EXPECT_EQ(some->accepted, both[0].tokens);
  EXPECT_EQ(both[1].tokens, plain[0].tokens);
}

TEST_F(ConstraintTest, AFinishedConstraintEndsTheAnswer) {
  const std::vector<Ended> out = answers({request(std::make_shared<Letters>(std::set<int32_t>{3, 40}, 100, 7)),
                                          request(std::make_shared<Letters>(std::set<int32_t>{3}, 0, 0))});
  EXPECT_EQ(out[0].tokens.size(), 7u);
  EXPECT_EQ(out[0].finish, FinishReason::Stop);
  EXPECT_EQ(out[0].last, -1);
  EXPECT_EQ(out[1].tokens.size(), 0u);
  EXPECT_EQ(out[1].finish, FinishReason::Stop);
}

TEST_F(ConstraintTest, StopTokensWaitUntilTheAnswerMayEnd) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const auto some = std::make_shared<Letters>(std::set<int32_t>{3, 40}, 5, 100);
    const std::vector<Ended> out = answers({request(some, seed)}, {9});
    EXPECT_GE(out[0].tokens.size(), 5u);
    EXPECT_EQ(out[0].last, out[0].finish == FinishReason::Stop ? 9 : -1);
    EXPECT_EQ(some->accepted, out[0].tokens);
  }
}

TEST_F(ConstraintTest, ItsErrorEndsItsRequestAlone) {
  const auto some = std::make_shared<Letters>(std::set<int32_t>{3, 40}, 100, 100);
  some->fail_at = 3;
  const std::vector<Ended> out = answers({request(some), request(nullptr, 2)});
  EXPECT_EQ(out[0].finish, FinishReason::Error);
  EXPECT_EQ(out[0].error, "the grammar is lost");
  EXPECT_EQ(out[0].tokens.size(), 3u);
  EXPECT_EQ(out[1].finish, FinishReason::Length);
}

TEST_F(ConstraintTest, AnEmptySetIsAnError) {
  const std::vector<Ended> out = answers({request(std::make_shared<Letters>(std::set<int32_t>{}, 100, 100))});
  EXPECT_EQ(out[0].finish, FinishReason::Error);
}

}  // namespace
}  // namespace braid
