// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/reasoning_constraint.h"

#include <gtest/gtest.h>

#include <random>

namespace braid {
namespace {

// Allows one list of tokens, in order, and then the end.
class Script : public TokenConstraint {
 public:
  explicit Script(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  bool narrow(std::span<int32_t> words) override {
    std::vector<int32_t> kept(words.size());
    if (at_ < tokens_.size()) kept[tokens_[at_] / 32] = words[tokens_[at_] / 32] & static_cast<int32_t>(bit());
    std::copy(kept.begin(), kept.end(), words.begin());
    return true;
  }
  bool may_end() const override { return at_ == tokens_.size(); }
  bool finished() const override { return at_ == tokens_.size(); }
  void advance(int32_t token) override {
    ASSERT_LT(at_, tokens_.size());
    ASSERT_EQ(token, tokens_[at_]);
    ++at_;
  }
  void rollback(int64_t tokens) override { at_ -= static_cast<size_t>(tokens); }

 private:
  uint32_t bit() const { return uint32_t{1} << (tokens_[at_] % 32); }
  std::vector<int32_t> tokens_;
  size_t at_ = 0;
};

struct Pocket {
  Tokenizer tokenizer = Tokenizer::load(std::string(BRAID_SOURCE_DIR) + "/models/pocket");
  int32_t end = *tokenizer.token_to_id("<|im_end|>");
  int32_t open = *tokenizer.token_to_id("<think>"), close = *tokenizer.token_to_id("</think>");
  int32_t call = *tokenizer.token_to_id("<tool_call>");
  std::shared_ptr<const ReasoningTokens> tokens = std::make_shared<const ReasoningTokens>(
      tokenizer, Dialect{.reasoning = ReasoningMarks{}, .tools = ToolForm::Json}, std::vector{end});
  std::vector<int32_t> encode(const std::string& text) const {
    return tokenizer.encode(text, {.add_special_tokens = false});
  }
};

const Pocket& pocket() {
  static const Pocket it;
  return it;
}

std::vector<int32_t> allowed(TokenConstraint& constraint) {
  std::vector<int32_t> words(static_cast<size_t>(pocket().tokenizer.size() + 31) / 32, -1), out;
  constraint.narrow(words);
  for (int32_t id = 0; id < pocket().tokenizer.size(); ++id)
    if ((static_cast<uint32_t>(words[id / 32]) >> (id % 32)) & 1) out.push_back(id);
  return out;
}

bool allows(TokenConstraint& constraint, int32_t token) {
  const auto all = allowed(constraint);
  return std::find(all.begin(), all.end(), token) != all.end();
}

ReasoningConstraint make(ReasoningStart start, std::optional<int64_t> budget, bool scripted = true) {
  return {pocket().tokens,
          {.start = start, .budget = budget},
          scripted ? std::make_unique<Script>(pocket().encode("{\"a\"}")) : nullptr};
}

TEST(ReasoningConstraint, TheAnswerIsHeldOnlyAfterTheThoughts) {
  const std::vector<int32_t> script = pocket().encode("{\"a\"}");
  ReasoningConstraint constraint = make(ReasoningStart::Open, {});
  for (const int32_t token : pocket().encode("\nany {thoughts}")) {
    EXPECT_TRUE(allows(constraint, token));
    EXPECT_FALSE(allows(constraint, pocket().end));
    EXPECT_FALSE(allows(constraint, pocket().call));
    EXPECT_FALSE(constraint.may_end());
    EXPECT_FALSE(constraint.finished());
    constraint.advance(token);
  }
  constraint.advance(pocket().close);
  for (int i = 0; i < ReasoningConstraint::kGap; ++i) {
    EXPECT_TRUE(allows(constraint, script[0]));
    const std::vector<int32_t> space = pocket().encode("\n");
    EXPECT_TRUE(allows(constraint, space[0]));
    EXPECT_FALSE(allows(constraint, pocket().encode("any")[0]));
    constraint.advance(space[0]);
  }
  for (const int32_t token : script) {
    EXPECT_EQ(allowed(constraint), std::vector{token});
    EXPECT_FALSE(constraint.may_end());
    constraint.advance(token);
  }
  EXPECT_TRUE(constraint.may_end());
  EXPECT_TRUE(constraint.finished());
}

TEST(ReasoningConstraint, WithoutThoughtsTheAnswerIsHeldAtOnce) {
  const int32_t first = pocket().encode("{\"a\"}")[0];
  ReasoningConstraint closed = make(ReasoningStart::Closed, {});
  EXPECT_EQ(allowed(closed), std::vector{first});
  ReasoningConstraint unopened = make(ReasoningStart::Unopened, {});
  std::vector<int32_t> both{first, pocket().open};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(allowed(unopened), both);
  unopened.advance(pocket().open);
  EXPECT_TRUE(allows(unopened, pocket().encode("so")[0]));
  unopened.advance(pocket().close);
  EXPECT_TRUE(allows(unopened, first));
}

TEST(ReasoningConstraint, TheMarkIsForcedWhenTheBudgetIsSpent) {
  for (const bool scripted : {false, true}) {
    ReasoningConstraint constraint = make(ReasoningStart::Open, 3, scripted);
    const int32_t thought = pocket().encode("so")[0];
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(allowed(constraint).size(), 1000u);
      constraint.advance(thought);
    }
    EXPECT_EQ(allowed(constraint), std::vector{pocket().close});
    constraint.advance(pocket().close);
    EXPECT_EQ(allowed(constraint).size() > 1000u, !scripted);
  }
  ReasoningConstraint none = make(ReasoningStart::Open, 0);
  EXPECT_EQ(allowed(none), std::vector{pocket().close});
}

TEST(ReasoningConstraint, MarksOfSeveralTokensAreForcedAndFound) {
  const auto tokens = std::make_shared<const ReasoningTokens>(
      pocket().tokenizer, Dialect{.reasoning = ReasoningMarks{.open = "[BEGIN]", .close = "[/END]"}},
      std::vector<int32_t>{});
  ASSERT_GT(tokens->close.size(), 1u);
  EXPECT_FALSE(tokens->open);
  ReasoningConstraint constraint(tokens, {.start = ReasoningStart::Open, .budget = 1},
                                 std::make_unique<Script>(pocket().encode("{")));
  constraint.advance(pocket().encode("so")[0]);
  for (const int32_t token : tokens->close) {
    EXPECT_EQ(allowed(constraint), std::vector{token});
    constraint.advance(token);
  }
  EXPECT_TRUE(allows(constraint, pocket().encode("{")[0]));
  EXPECT_LT(allowed(constraint).size(), 100u);
}

TEST(ReasoningConstraint, RollbackUndoesAnyNumberOfTokens) {
  std::vector<int32_t> whole{pocket().open};
  for (const char* part : {"some thoughts", "</think>", "\n\n", "{\"a\"}"})
    for (const int32_t token : pocket().encode(part)) whole.push_back(token);
  std::vector<std::vector<int32_t>> sets;
  ReasoningConstraint plain = make(ReasoningStart::Unopened, 30);
  for (const int32_t token : whole) {
    sets.push_back(allowed(plain));
    plain.advance(token);
  }
  sets.push_back(allowed(plain));
  std::mt19937 random(3);
  ReasoningConstraint constraint = make(ReasoningStart::Unopened, 30);
  size_t at = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t target = random() % (whole.size() + 1);
    if (target < at) constraint.rollback(static_cast<int64_t>(at - target));
    for (; at < target; ++at) constraint.advance(whole[at]);
    at = target;
    ASSERT_EQ(allowed(constraint), sets[at]) << at;
    ASSERT_EQ(constraint.finished(), at == whole.size());
  }
}

}  // namespace
}  // namespace braid
