// SPDX-License-Identifier: Apache-2.0
#include "engine/scorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/tiny_model_test.h"
#include "reference/executor.h"

namespace braid {
namespace {

using Rows = std::map<std::pair<size_t, int64_t>, std::vector<float>>;

class ScorerTest : public ::testing::Test {
 protected:
  struct Scores {
    Rows logits, hidden;
    std::map<std::tuple<size_t, int, int64_t>, std::vector<float>> taps;  // document, layer, position
  };

  Scores score(ScoreOptions options, const std::vector<ScoreDocument>& documents) {
    options.hidden = options.poison = true;
    Scorer scorer(model_.loaded(), options);
    Scores scores;
    std::map<size_t, int64_t> last;
    scorer.run(
        documents,
        [&](const ScoredRow& row) {
          EXPECT_TRUE(!last.contains(row.document) || last[row.document] < row.position) << "out of order";
          last[row.document] = row.position;
          scores.logits[{row.document, row.position}].assign(row.logits.begin(), row.logits.end());
          scores.hidden[{row.document, row.position}].assign(row.hidden.begin(), row.hidden.end());
        },
        [&](const TappedRows& rows) {
          for (int64_t i = 0; i < rows.count; ++i) {
            const auto row = rows.values.subspan(static_cast<size_t>(i * TinyModel::kWidth), TinyModel::kWidth);
            scores.taps[{rows.document, rows.layer, rows.position + i}].assign(row.begin(), row.end());
          }
        });
    return scores;
  }

  static std::vector<int64_t> all(int64_t count) {
    std::vector<int64_t> positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }

  TinyModel model_{make_reference_executor()};
};

TEST_F(ScorerTest, ChunksAndNeighboursChangeNothing) {
  std::vector<std::vector<int32_t>> texts;
  std::vector<ScoreDocument> documents;
  for (const int count : {100, 1, 37, 64, 100, 5}) texts.push_back(random_tokens(count, static_cast<uint32_t>(count)));
  for (const auto& text : texts) documents.push_back({.tokens = text, .positions = all(std::ssize(text))});
  const Scores whole = score({.context = 100, .chunk = 100, .sequences = 1}, documents);
  ASSERT_EQ(whole.logits.size(), 307u);
  ASSERT_EQ(whole.taps.size(), 307u * 5);
  EXPECT_EQ(whole.logits.at({0, 99}), whole.logits.at({4, 99}));
  for (const int64_t chunk : {1, 7, 64}) {
    for (const int32_t sequences : {1, 4}) {
      SCOPED_TRACE(fmt::format("chunk {} sequences {}", chunk, sequences));
      const Scores found =
          score({.context = 100, .chunk = chunk, .step_tokens = 80, .sequences = sequences}, documents);
      EXPECT_TRUE(found.logits == whole.logits);
      EXPECT_TRUE(found.hidden == whole.hidden);
      EXPECT_TRUE(found.taps == whole.taps);
    }
  }
}

TEST_F(ScorerTest, OnlyWantedPositionsAreHandedOut) {
  const std::vector<int32_t> text = random_tokens(90, 1);
  const Scores whole = score({.context = 90, .chunk = 90}, {{.tokens = text, .positions = all(90)}});
  const Scores some = score({.context = 90, .chunk = 16}, {{.tokens = text, .positions = {0, 15, 16, 60, 89}}});
  ASSERT_EQ(some.logits.size(), 5u);
  for (const auto& [place, row] : some.logits) EXPECT_EQ(row, whole.logits.at(place)) << place.second;
  for (const auto& [place, row] : some.hidden) EXPECT_EQ(row, whole.hidden.at(place)) << place.second;
  EXPECT_TRUE(score({.context = 90}, {{.tokens = text}}).logits.empty());
}

TEST_F(ScorerTest, GreedyAnswersFollowTheScores) {
  std::vector<int32_t> text = random_tokens(30, 2);
  Engine engine(model_.loaded(), {.context = 100, .steps = {.sequences = 1}});
  Request request{.tokens = text, .max_tokens = 20};
  request.sampling.temperature = 0;
  std::vector<float> logprobs;
  request.on_event = [&](const Event& event) {
    if (!event.finish) text.push_back(event.token), logprobs.push_back(event.logprob);
    return Verdict::Continue;
  };
  engine.submit(request);
  engine.run_until_idle();
  const Scores scores = score({.context = 100}, {{.tokens = text, .positions = all(50)}});
  for (int64_t i = 30; i < 50; ++i) {
    const std::vector<float>& row = scores.logits.at({0, i - 1});
    EXPECT_EQ(std::ranges::max_element(row) - row.begin(), text[static_cast<size_t>(i)]);
    EXPECT_EQ(static_cast<float>(-token_loss(row, text[static_cast<size_t>(i)])),
              logprobs[static_cast<size_t>(i - 30)]);
  }
}

TEST_F(ScorerTest, LossesAreOfEachDocumentAlone) {
  const std::vector<int32_t> a = random_tokens(70, 1), b = random_tokens(20, 2), one{5};
  const std::vector<std::span<const int32_t>> documents{a, b, one};
  Scorer scorer(model_.loaded(), {.context = 70, .chunk = 16, .step_tokens = 40, .sequences = 3});
  const std::vector<DocumentLoss> losses = scorer.losses(documents);
  const Scores scores = score({.context = 70, .chunk = 70}, {{.tokens = a, .positions = all(70)}});
  double sum = 0;
  for (int64_t i = 1; i < 70; ++i) {
    const std::vector<float>& row = scores.logits.at({0, i - 1});
    double total = 0;
    for (const float logit : row) total += std::exp(static_cast<double>(logit));
    sum += std::log(total) - row[static_cast<size_t>(a[static_cast<size_t>(i)])];
  }
  EXPECT_EQ(losses[0].tokens, 69);
  EXPECT_NEAR(losses[0].sum, sum, sum * 70 * 0x1p-52);  // some 70 additions in double
  EXPECT_EQ(losses[1].tokens, 19);
  EXPECT_EQ(losses[2].tokens, 0);
  EXPECT_EQ(losses[2].sum, 0.0);
}

TEST(TokenLoss, IsExactForHugeLogits) {
  const std::vector<float> logits{1000.0f, 1000.0f, -1000.0f};
  EXPECT_DOUBLE_EQ(token_loss(logits, 0), std::log(2.0));
  EXPECT_DOUBLE_EQ(token_loss(logits, 2), 2000 + std::log(2.0));
}

TEST_F(ScorerTest, DraftsPairHiddenRowsWithTheNextToken) {
  const std::vector<int32_t> text = random_tokens(20, 3);
  Scorer scorer(model_.loaded(), {.context = 40, .chunk = 40, .drafts = 2, .poison = true});
  std::map<std::pair<int, int64_t>, std::vector<float>> rows;
  scorer.drafts(text, [&](const DraftedRow& row) {
    rows[{row.depth, row.position}].assign(row.logits.begin(), row.logits.end());
  });
  EXPECT_EQ(rows.size(), 19u + 18u);
  // A row at depth d depends on tokens up to i + d and on none after it.
  std::vector<int32_t> changed = text;
  changed[12] ^= 1;
  std::map<std::pair<int, int64_t>, std::vector<float>> others;
  scorer.drafts(changed, [&](const DraftedRow& row) {
    others[{row.depth, row.position}].assign(row.logits.begin(), row.logits.end());
  });
  for (const auto& [place, row] : rows)
    EXPECT_EQ(row == others.at(place), place.first + place.second < 12) << place.first << " " << place.second;
}

TEST_F(ScorerTest, TextsThatCannotBeScoredAreRefused) {
  Scorer scorer(model_.loaded(), {.context = 40});
  const auto error = [&](const std::vector<int32_t>& text) -> std::string {
    try {
      const std::vector<std::span<const int32_t>> documents{text};
      scorer.losses(documents);
    } catch (const Error& refused) {
      return refused.message();
    }
    return "accepted";
  };
  EXPECT_EQ(error({}), "document 1: the text is empty");
  EXPECT_EQ(error(std::vector<int32_t>(41)), "document 1: the text has 41 tokens, the context holds 40");
  EXPECT_EQ(error({1, 50}), "document 1: token 50 is outside of the vocabulary of 50");
}

}  // namespace
}  // namespace braid
