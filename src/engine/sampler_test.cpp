// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/token_history.h"
#include "reference/executor.h"

namespace braid {
namespace {

std::vector<TokenEntry> entries_of(const TokenHistory& history, std::vector<int32_t> banned = {}) {
  std::vector<TokenEntry> out;
  history.append_entries(banned, out);
  std::ranges::sort(out, {}, &TokenEntry::token);
  return out;
}

void expect_entry(const TokenEntry& entry, const TokenEntry& expected) {
  EXPECT_EQ(entry.token, expected.token);
  EXPECT_EQ(entry.count, expected.count);
  EXPECT_EQ(entry.seen, expected.seen);
  EXPECT_EQ(entry.bias, expected.bias);
}

TEST(TokenHistory, IsEmptyWhereNothingChangesLogits) {
  TokenHistory history({}, std::vector<int32_t>{1, 2, 3});
  history.add(4);
  EXPECT_TRUE(entries_of(history).empty());
}

TEST(TokenHistory, RepetitionSeesThePromptCountsDoNot) {
  const std::vector<int32_t> prompt{1, 2, 1};
  TokenHistory repetition({.penalties = {.repetition = 1.1f}}, prompt);
  TokenHistory presence({.penalties = {.presence = 1.0f}}, prompt);
  for (TokenHistory* history : {&repetition, &presence}) history->add(2), history->add(7), history->add(7);
  const auto seen = entries_of(repetition);
  ASSERT_EQ(seen.size(), 3u);
  expect_entry(seen[0], {.token = 1, .count = 0, .seen = 1});
  expect_entry(seen[1], {.token = 2, .count = 1, .seen = 1});
  expect_entry(seen[2], {.token = 7, .count = 2, .seen = 1});
  const auto counted = entries_of(presence);
  ASSERT_EQ(counted.size(), 2u);
  expect_entry(counted[0], {.token = 2, .count = 1, .seen = 1});
  expect_entry(counted[1], {.token = 7, .count = 2, .seen = 1});
}

TEST(TokenHistory, BiasesAndBansMeetInOneEntry) {
  TokenHistory history({.penalties = {.frequency = 1.0f}, .logit_bias = {{5, 2.0f}, {6, -1.0f}, {5, 0.5f}}}, {});
  history.add(5);
  const auto entries = entries_of(history, {6, 9, 9});
  ASSERT_EQ(entries.size(), 3u);
  expect_entry(entries[0], {.token = 5, .count = 1, .seen = 1, .bias = 2.5f});
  expect_entry(entries[1], {.token = 6, .bias = -INFINITY});
  expect_entry(entries[2], {.token = 9, .bias = -INFINITY});
  expect_entry(entries_of(history)[1], {.token = 6, .bias = -1.0f});  // a ban is for once
}

class SamplerTest : public ::testing::Test {
 protected:
  Tensor logits(std::vector<float> values, int64_t vocabulary) {
    values_ = std::move(values);
    return Tensor(values_.data(), DType::F32, {std::ssize(values_) / vocabulary, vocabulary});
  }
  std::unique_ptr<Executor> executor_ = make_reference_executor();
  std::vector<float> values_;
};

TEST_F(SamplerTest, RowsKeepTheirOwnSettings) {
  Sampler sampler(*executor_, 5, 4, {});
  const std::vector<TokenEntry> ban{{.token = 1, .bias = -INFINITY}}, twice{{.token = 1, .count = 2}};
  const std::vector<DrawRow> rows{{.logprobs = 2},
                                  {.entries = ban},
                                  {.penalties = {.frequency = 3.0f}, .entries = twice, .logprobs = 5},
                                  {.how = {.temperature = 1.0f, .top_k = 1}}};
  std::vector<float> all;
  for (int row = 0; row < 4; ++row) all.insert(all.end(), {1.0f, 6.0f, 2.0f, 5.0f, 0.0f});
  const std::vector<Drawn> drawn = sampler.draw(logits(all, 5), rows);
  ASSERT_EQ(drawn.size(), 4u);
  EXPECT_EQ(drawn[0].token, 1);
  EXPECT_EQ(drawn[1].token, 3);
  EXPECT_EQ(drawn[2].token, 3);
  EXPECT_EQ(drawn[3].token, 1);
  const double sum = std::exp(1) + std::exp(6) + std::exp(2) + std::exp(5) + 1;
  // Sums in double, one rounding into f32; the logarithm is below 8, so half an ulp is 2^-22.
  EXPECT_NEAR(drawn[0].logprob, 6 - std::log(sum), 0x1p-22);
  ASSERT_EQ(drawn[0].top.size(), 2u);
  EXPECT_EQ(drawn[0].top[0], (TokenLogprob{1, drawn[0].logprob}));
  EXPECT_EQ(drawn[0].top[1].token, 3);
  EXPECT_TRUE(drawn[1].top.empty());
  ASSERT_EQ(drawn[2].top.size(), 5u);
  EXPECT_EQ(drawn[2].top[3].token, 1);  // 6 - 2 * 3 = 0 ties with token 4: the lower id first
  EXPECT_EQ(drawn[2].top[4].token, 4);
  EXPECT_TRUE(drawn[3].top.empty());
}

TEST_F(SamplerTest, AMaskShorterThanTheVocabularyForbidsTheRest) {
  Sampler sampler(*executor_, 70, 1, {-2});  // 1 to 31
  std::vector<float> values(70);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  EXPECT_EQ(sampler.draw(logits(values, 70), std::vector<DrawRow>{{.logprobs = 20}})[0].token, 31);
  std::vector<float> only_forbidden(70, -INFINITY);
  only_forbidden[40] = 1.0f;
  EXPECT_EQ(sampler.draw(logits(only_forbidden, 70), std::vector<DrawRow>(1))[0].token, -1);
}

TEST_F(SamplerTest, TheRoomForEntriesGrows) {
  Sampler sampler(*executor_, 3000, 1, {});
  for (const int count : {1, 2999}) {
    std::vector<TokenEntry> ban;
    for (int32_t token = 0; token < count; ++token) ban.push_back({.token = token, .bias = -INFINITY});
    const auto drawn =
        sampler.draw(logits(std::vector<float>(3000, 1.0f), 3000), std::vector<DrawRow>{{.entries = ban}});
    EXPECT_EQ(drawn[0].token, count);
  }
}

}  // namespace
}  // namespace braid
