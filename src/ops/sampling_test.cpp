// SPDX-License-Identifier: Apache-2.0
#include "ops/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/rng.h"
#include "ops/contract.h"

namespace braid {
namespace {

TEST(Penalise, HoldsForEveryKindOfEntry) {
  const std::vector<TokenEntry> entries = {{0, 3, 1, 0.5f}, {9, 0, 1, 0}, {4, 1, 0, -2}, {7, 2, 1, 0},
                                           {49, 1, 1, 0},   {1, 0, 0, 9}, {0, 5, 1, 0}};
  for (const float repetition : {1.0f, 1.3f, 0.5f})
    hold([&](Case& c) -> Op {
      return Penalise{.logits = c.strided_numbers(3, 50, 4),
                      .starts = c.integers({4}, {0, 5, 5, 7}),
                      .entries = c.records(entries),
                      .penalties = c.floats({3, 3}, {repetition, 0.25f, 0.75f, 1, 0, 0, repetition, 0, 1})};
    });
  hold([](Case& c) -> Op {
    return Penalise{c.numbers({2, 50}), c.integers({3}, {0, 0, 0}), c.records<TokenEntry>({}), c.numbers({2, 3})};
  });
  hold([](Case& c) -> Op {
    return Penalise{c.numbers({0, 50}), c.integers({1}, {0}), c.records<TokenEntry>({}), c.numbers({0, 3})};
  });
}

TEST(Penalise, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const Penalise op{c.floats({1, 3}, {2, -2, 1}), c.integers({2}, {0, 2}),
                    c.records<TokenEntry>({{0, 2, 1, 0.5f}, {1, 0, 1, 0}}), c.floats({1, 3}, {4, 0.25f, 1})};
  c.just_run(op);
  EXPECT_EQ(op.logits.as<float>()[0], 2.0f / 4 - 0.5f - 1 + 0.5f);
  EXPECT_EQ(op.logits.as<float>()[1], -8);
  EXPECT_EQ(op.logits.as<float>()[2], 1);
}

TEST(Penalise, AChangedInputIsSeen) {
  const auto make = [](Case& c) -> Op {
    return Penalise{c.numbers({1, 5}), c.integers({2}, {0, 1}), c.records<TokenEntry>({{2, 1, 1, 0}}),
                    c.floats({1, 3}, {1.5f, 1, 1})};
  };
  plant(make, [](Op& op) { return std::get<Penalise>(op).logits.as<float>() + 2; });
  plant(make, [](Op& op) { return std::get<Penalise>(op).penalties.as<float>() + 1; });
}

TEST(MaskTokens, HoldsForWidthsAndSharedRows) {
  for (const int64_t width : {1, 31, 32, 33, 64, 1000})
    for (const int64_t rows : {0, 1, 3})
      for (const bool shared : {false, true})
        hold([&](Case& c) -> Op {
          const int64_t words = (width + 31) / 32, masks = shared ? 1 : rows;
          std::vector<int32_t> bits;
          for (int64_t i = 0; i < masks * words; ++i)
            bits.push_back(static_cast<int32_t>(c.random(int64_t{1} << 24) * 257));
          return MaskTokens{c.strided_numbers(rows, width), c.integers({masks, words}, bits)};
        });
}

TEST(MaskTokens, TheLowestBitIsTheFirstToken) {
  for (Subject& subject : subjects()) {
    Case c(subject);
    const MaskTokens op{c.numbers({1, 40}), c.integers({1, 2}, {1 << 5, 1 << 7})};
    EXPECT_EQ(c.run(op), "") << subject.name;
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(op.logits.as<float>()[i] == -INFINITY, i != 5 && i != 39) << subject.name << i;
  }
}

TEST(MaskTokens, AChangedInputIsSeen) {
  plant(
      [](Case& c) -> Op {
        return MaskTokens{c.numbers({1, 5}), c.integers({1, 1}, {31})};
      },
      [](Op& op) { return std::get<MaskTokens>(op).logits.as<float>() + 2; });
}

Sample sample(Case& c, const Tensor& logits, const std::vector<SampleRow>& params) {
  return {.tokens = c.poison(DType::I32, {logits.rows()}),
          .logprobs = c.poison(DType::F32, {logits.rows()}),
          .logits = logits,
          .params = c.records(params)};
}

// `how` for `rows` rows at following positions.
std::vector<SampleRow> repeat(SampleRow how, int64_t rows) {
  std::vector<SampleRow> out;
  for (int64_t r = 0; r < rows; ++r, ++how.position) out.push_back(how);
  return out;
}

TEST(Sample, HoldsForEveryCut) {
  std::vector<SampleRow> params;
  for (const float temperature : {0.0f, 0.1f, 0.7f, 1.0f, 3.0f})
    for (const int32_t top_k : {0, 1, 5, 40})
      for (const float top_p : {1.0f, 0.9f, 0.3f, 1e-6f})
        for (const float min_p : {0.0f, 0.05f, 0.6f, 1.0f})
          params.push_back({temperature, top_k, top_p, min_p, 77, params.size()});
  const int64_t rows = std::ssize(params);
  for (const int64_t width : {1, 2, 33, 1000})
    hold([&](Case& c) -> Op { return sample(c, c.strided_numbers(rows, width, 6), params); }, width);
}

// Shares of exactly a quarter: a sum that equals top_p is enough, and a share that equals min_p's border stays.
TEST(Sample, BordersBelongToTheKeptSide) {
  for (Subject& subject : subjects()) {
    const auto drawn = [&](float top_p, float min_p) {
      Case c(subject);
      const Sample op = sample(c, c.numbers({200, 4}, 0), repeat({1, 0, top_p, min_p, 8, 0}, 200));
      c.just_run(op);
      return *std::max_element(op.tokens.as<int32_t>(), op.tokens.as<int32_t>() + 200);
    };
    EXPECT_EQ(drawn(0.5f, 0), 1) << subject.name;
    EXPECT_EQ(drawn(0.75f, 0), 2) << subject.name;
    EXPECT_EQ(drawn(0.25f, 0), 0) << subject.name;
    EXPECT_EQ(drawn(1, 1), 3) << subject.name;
  }
}

TEST(Sample, ATopPOfZeroKeepsOneToken) {
  for (const int32_t top_k : {0, 3})
    for (const float min_p : {0.0f, 0.5f})
      hold([&](Case& c) -> Op { return sample(c, c.numbers({4, 200}, 6), repeat({1, top_k, 0, min_p, 5, 0}, 4)); });
}

TEST(Sample, HoldsForLargeVocabulariesAndNoRows) {
  hold([](Case& c) -> Op {
    return sample(c, c.numbers({3, 70001}, 12),
                  {{0.8f, 0, 0.95f, 0.0f, 5, 1}, {1.0f, 50, 0.9f, 0.02f, 6, 2}, {0, 0, 1, 0, 7, 3}});
  });
  hold([](Case& c) -> Op { return sample(c, c.numbers({0, 10}), {}); });
}

TEST(Sample, HoldsForTies) {
  const std::vector<float> row = {1, 3, 3, -1, 3, 1, 3, -1};
  for (const int32_t top_k : {0, 1, 2, 3, 5, 8, 100})
    for (const float temperature : {0.0f, 1.0f})
      hold([&](Case& c) -> Op {
        std::vector<float> logits;
        for (int r = 0; r < 50; ++r) logits.insert(logits.end(), row.begin(), row.end());
        return sample(c, c.floats({50, 8}, logits), repeat({temperature, top_k, 1, 0, 3, 0}, 50));
      });
  // The second largest four-way tie is cut by lower id.
  Case c(reference_subject());
  for (int64_t position = 0; position < 64; ++position) {
    const Sample op = sample(c, c.floats({1, 8}, row), {{1, 2, 1, 0, 9, static_cast<uint64_t>(position)}});
    c.just_run(op);
    EXPECT_TRUE(op.tokens.as<int32_t>()[0] == 1 || op.tokens.as<int32_t>()[0] == 2);
  }
}

TEST(Sample, HoldsForMaskedAndBrokenRows) {
  const float no = -INFINITY, nan = NAN;
  for (const float temperature : {0.0f, 1.0f}) {
    for (const SampleRow& how : {SampleRow{temperature, 0, 1, 0, 1, 0}, SampleRow{temperature, 3, 0.8f, 0.1f, 1, 0}}) {
      hold([&](Case& c) -> Op {
        return sample(
            c, c.floats({5, 4}, {no, no, no, no, no, 2, no, 1, nan, nan, nan, nan, nan, -5, no, nan, 0, 0, nan, no}),
            repeat(how, 5));
      });
    }
  }
}

// Pearson's statistic against the probabilities that the cuts leave; for d degrees of freedom it exceeds
// d + 2 sqrt(d t) + 2 t with probability e^-t at most (Laurent and Massart, 2000).
TEST(Sample, DrawsWithTheRightFrequencies) {
  const int64_t draws = 4000, width = 12;
  std::vector<float> row;
  for (int i = 0; i < width; ++i) row.push_back(0.3f * static_cast<float>((i * 5) % 12));
  const SampleRow cases[] = {{1.0f, 0, 1, 0, 1, 0},    {0.5f, 0, 1, 0, 2, 0},    {1.0f, 4, 1, 0, 3, 0},
                             {1.0f, 0, 0.6f, 0, 4, 0}, {1.0f, 0, 1, 0.3f, 5, 0}, {2.0f, 8, 0.7f, 0.6f, 6, 0}};
  for (Subject& subject : subjects()) {
    for (const SampleRow& how : cases) {
      std::vector<std::pair<double, int>> shares;  // descending
      for (int i = 0; i < width; ++i) shares.push_back({std::exp(row[static_cast<size_t>(i)] / how.temperature), i});
      std::ranges::sort(shares, std::greater());
      const auto sum = [&] {
        double s = 0;
        for (auto& share : shares) s += share.first;
        return s;
      };
      if (how.top_k > 0) shares.resize(static_cast<size_t>(how.top_k));
      for (const double total = sum(); auto& share : shares) share.first /= total;
      size_t kept = 0;
      for (double mass = 0; kept < shares.size() && mass < how.top_p; ++kept) mass += shares[kept].first;
      shares.resize(kept);
      std::erase_if(shares, [&, top = shares[0].first](auto& share) { return share.first < how.min_p * top; });

      Case c(subject);
      std::vector<float> logits;
      for (int64_t r = 0; r < draws; ++r) logits.insert(logits.end(), row.begin(), row.end());
      const Sample op = sample(c, c.floats({draws, width}, logits), repeat(how, draws));
      c.just_run(op);
      std::vector<double> counts(static_cast<size_t>(width));
      for (int64_t r = 0; r < draws; ++r) ++counts[static_cast<size_t>(op.tokens.as<int32_t>()[r])];
      double statistic = 0, seen = 0;
      for (const double total = sum(); const auto& [share, token] : shares) {
        const double mean = static_cast<double>(draws) * share / total, off = counts[static_cast<size_t>(token)] - mean;
        statistic += off * off / mean, seen += counts[static_cast<size_t>(token)];
      }
      const double d = static_cast<double>(shares.size()) - 1, t = 16;
      EXPECT_EQ(seen, draws) << subject.name << ": a token outside the cut was drawn";
      EXPECT_LE(statistic, d + 2 * std::sqrt(d * t) + 2 * t) << subject.name << " key " << how.key;
    }
  }
}

TEST(Sample, TheNumberDrawnIsThatOfKeyAndPosition) {
  for (Subject& subject : subjects()) {
    Case c(subject);
    const int64_t width = 1000;
    const Sample op = sample(c, c.numbers({100, width}, 0), repeat({1, 0, 1, 0, 11, 40}, 100));
    c.just_run(op);
    for (int64_t r = 0; r < 100; ++r) {
      // Equal shares: the draw is the uniform number times the width, up to rounding at a border.
      const double at = static_cast<double>(uniform(11, static_cast<uint64_t>(40 + r), 0)) * static_cast<double>(width);
      EXPECT_NEAR(op.tokens.as<int32_t>()[r], std::floor(at), at - std::floor(at) < 0.01 || at - std::floor(at) > 0.99)
          << subject.name;
      EXPECT_NEAR(op.logprobs.as<float>()[r], -std::log(1000.0), 1e-4) << subject.name;
    }
  }
}

TEST(Sample, AChangedInputIsSeen) {
  const auto make = [](Case& c) -> Op { return sample(c, c.numbers({1, 50}), {{1, 0, 1, 0, 2, 3}}); };
  plant(make, [](Op& op) { return std::get<Sample>(op).logits.as<float>() + 30; });
}

TopLogprobs top(Case& c, const Tensor& logits, int64_t n) {
  return {.tokens = c.poison(DType::I32, {logits.rows(), n}),
          .logprobs = c.poison(DType::F32, {logits.rows(), n}),
          .logits = logits};
}

TEST(TopLogprobs, HoldsForCountsWidthsAndTies) {
  for (const int64_t width : {1, 20, 33, 5000})
    for (const int64_t n : {int64_t{1}, int64_t{5}, int64_t{20}})
      if (n <= width)
        for (const int64_t rows : {0, 1, 4})
          hold([&](Case& c) -> Op { return top(c, c.strided_numbers(rows, width, 8), n); });
  hold([](Case& c) -> Op { return top(c, c.floats({1, 6}, {1, 2, 2, 0, 2, 1}), 4); });
  hold([](Case& c) -> Op { return top(c, c.floats({2, 3}, {NAN, -INFINITY, 1, -INFINITY, NAN, -INFINITY}), 3); });
}

TEST(TopLogprobs, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const TopLogprobs op = top(c, c.floats({1, 3}, {1, 3, 2}), 2);
  c.just_run(op);
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_EQ(op.tokens.as<int32_t>()[0], 1);
  EXPECT_EQ(op.tokens.as<int32_t>()[1], 2);
  EXPECT_FLOAT_EQ(op.logprobs.as<float>()[1], static_cast<float>(2 - std::log(sum)));
}

TEST(TopLogprobs, AChangedInputIsSeen) {
  plant(
      [](Case& c) -> Op {
        return top(c, c.numbers({2, 30}), 3);
      },
      [](Op& op) { return std::get<TopLogprobs>(op).logits.row<float>(1) + 4; });
}

}  // namespace
}  // namespace braid
