// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/contract.h"

namespace braid {
namespace {

using Sequences = std::vector<SequenceRows>;

struct Heads {
  int64_t queries = 2, groups = 1, size = 16;
  int64_t page = 16, window = 0;
};

const Sequences kOne = {{.first_position = 0, .rows = 1}};
const Sequences kDecode = {
    {.first_position = 40}, {.first_position = 0}, {.first_position = 129}, {.first_position = 63}};
const Sequences kPrefill = {{.first_position = 0, .rows = 37}};
const Sequences kMixed = {{.first_position = 17},
                          {.first_position = 64},
                          {.first_position = 5, .rows = 3},
                          {.first_position = 0, .rows = 0},
                          {.first_position = 50, .rows = 29},
                          {.first_position = 0, .rows = 1}};
const Sequences kNone = {};

int64_t tokens_of(const Sequences& sequences) {
  int64_t tokens = 0;
  for (const SequenceRows& sequence : sequences) tokens += sequence.rows;
  return tokens;
}

PrepareHeads prepare(Case& c, const Heads& heads, const Sequences& sequences, int64_t rotated, bool normed) {
  const int64_t tokens = tokens_of(sequences);
  const DType type = c.activation_type();
  PrepareHeads op;
  // Queries lie between their gates, keys and values in fused rows.
  op.q = c.strided_numbers(tokens, heads.queries * 2 * heads.size, 2, type)
             .split_columns(heads.queries)
             .slice_columns(0, heads.size);
  const Tensor fused = c.strided_numbers(tokens, 2 * heads.groups * heads.size, 2, type);
  op.k = fused.slice_columns(0, heads.groups * heads.size).split_columns(heads.groups);
  op.v = fused.slice_columns(heads.groups * heads.size, heads.groups * heads.size).split_columns(heads.groups);
  if (normed) op.q_norm = c.numbers({heads.size}, 2), op.k_norm = c.numbers({heads.size}, 2);
  if (rotated > 0) {
    std::vector<float> frequencies;
    for (int64_t i = 0; i < rotated / 2; ++i)
      frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotated)));
    op.rope = {.frequencies = c.floats({rotated / 2}, frequencies), .scale = 1.0f};
  }
  op.rows = c.rows(sequences);
  op.cache =
      c.cache({.page_size = heads.page, .heads = heads.groups, .size = heads.size}, sequences, false, c.cache_type());
  return op;
}

TEST(PrepareHeads, HoldsForHeadSizesAndRotations) {
  for (const int64_t size : {8, 16, 32, 64, 128, 256})
    for (const int64_t rotated : {int64_t{0}, size / 4, size})
      for (const bool normed : {true, false})
        for (const Sequences& sequences : {kOne, kMixed})
          hold([&](Case& c) -> Op {
            return prepare(c, {.queries = 4, .groups = 2, .size = size}, sequences, rotated, normed);
          });
}

TEST(PrepareHeads, HoldsForHeadCountsPagesAndNoRows) {
  for (const auto& [queries, groups] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {8, 8}, {16, 2}})
    for (const int64_t page : {1, 7, 64})
      hold([&](Case& c) -> Op { return prepare(c, {queries, groups, 32, page}, kDecode, 32, true); });
  hold([&](Case& c) -> Op { return prepare(c, {}, kNone, 8, true); });
}

TEST(PrepareHeads, RotatesFarPositionsAndScales) {
  for (const int32_t position : {1000, 131071, 1000000}) {
    hold([&](Case& c) -> Op {
      PrepareHeads op = prepare(c, {.queries = 2, .groups = 1, .size = 64}, {{.first_position = 3}}, 64, true);
      op.rope.scale = 1.2f;
      op.rows.positions.as<int32_t>()[0] = position;
      op.rows.context = position + 1;
      // Every page of the table is the same one, so that the cache stays small.
      const int64_t pages = position / 16 + 1;
      op.cache.table = c.integers({1, pages}, std::vector<int32_t>(static_cast<size_t>(pages), 1));
      return op;
    });
  }
}

TEST(PrepareHeads, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  PrepareHeads op;
  op.q = c.floats({1, 1, 4}, {1, 2, 3, 4});
  op.k = c.floats({1, 1, 4}, {1, 2, 3, 4});
  op.v = c.floats({1, 1, 4}, {5, 6, 7, 8});
  op.k_norm = c.floats({4}, {2, 2, 2, 2});
  op.epsilon = 0.5f;
  op.rope = {.frequencies = c.floats({1}, {0.25f}), .scale = 3.0f};
  const Sequences at_two = {{.first_position = 2}};
  op.rows = c.rows(at_two);
  op.cache = c.cache({.page_size = 4, .heads = 1, .size = 4}, at_two, false, DType::F32);
  c.just_run(op);
  const double cosine = 3 * std::cos(0.5), sine = 3 * std::sin(0.5), rms = 2 / std::sqrt(30.0 / 4 + 0.5);
  const float* q = op.q.as<float>();
  EXPECT_FLOAT_EQ(q[0], static_cast<float>(1 * cosine - 2 * sine));
  EXPECT_FLOAT_EQ(q[1], static_cast<float>(2 * cosine + 1 * sine));
  EXPECT_EQ(q[3], 4);
  const int64_t place = op.cache.table.as<int32_t>()[0] * 16 + 2 * 4;
  EXPECT_FLOAT_EQ(op.cache.keys.as<float>()[place], static_cast<float>(rms * (cosine - 2 * sine)));
  EXPECT_FLOAT_EQ(op.cache.keys.as<float>()[place + 2], static_cast<float>(rms * 3));
  EXPECT_EQ(op.cache.values.as<float>()[place + 3], 8);
}

TEST(PrepareHeads, AChangedInputIsSeen) {
  const auto make = [](Case& c) -> Op { return prepare(c, {.queries = 2, .groups = 2, .size = 64}, kMixed, 16, true); };
  plant(make, [](Op& op) { return std::get<PrepareHeads>(op).q.row<float>(20); });
  plant(make, [](Op& op) { return std::get<PrepareHeads>(op).k.row<float>(33) + 70; });
  plant(make, [](Op& op) { return std::get<PrepareHeads>(op).v.row<float>(1) + 127; });
  plant(make, [](Op& op) { return std::get<PrepareHeads>(op).k_norm.as<float>() + 5; });
  plant(make, [](Op& op) { return std::get<PrepareHeads>(op).rope.frequencies.as<float>() + 1; });
}

PagedAttention attend(Case& c, const Heads& heads, const Sequences& sequences, double size = 1) {
  const int64_t tokens = tokens_of(sequences);
  PagedAttention op;
  op.out = c.strided_poison(c.activation_type(), tokens, heads.queries * heads.size).split_columns(heads.queries);
  op.q = c.strided_numbers(tokens, heads.queries * 2 * heads.size, size, c.activation_type())
             .split_columns(heads.queries)
             .slice_columns(0, heads.size);
  op.scale = 1 / std::sqrt(static_cast<float>(heads.size));
  op.window = heads.window;
  op.rows = c.rows(sequences);
  int64_t from = INT64_MAX;
  for (const SequenceRows& sequence : sequences) from = std::min<int64_t>(from, sequence.first_position);
  from = heads.window > 0 ? std::max<int64_t>(0, from - heads.window + 1) : 0;
  op.cache = c.cache({.page_size = heads.page, .heads = heads.groups, .size = heads.size, .from = from}, sequences,
                     true, c.cache_type());
  return op;
}

TEST(PagedAttention, HoldsForHeadSizesAndGroups) {
  for (const int64_t size : {8, 16, 32, 64, 128, 256})
    for (const auto& [queries, groups] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {6, 2}, {8, 1}, {4, 4}})
      for (const Sequences& sequences : {kOne, kMixed})
        hold([&](Case& c) -> Op { return attend(c, {.queries = queries, .groups = groups, .size = size}, sequences); });
}

TEST(PagedAttention, HoldsForPageSizesAndBatches) {
  for (const int64_t page : {1, 5, 16, 64, 256})
    for (const Sequences& sequences : {kDecode, kPrefill, kMixed, kNone})
      hold([&](Case& c) -> Op { return attend(c, {.queries = 4, .groups = 2, .size = 32, .page = page}, sequences); });
}

TEST(PagedAttention, HoldsAtWindowBorders) {
  const int32_t w = 24;
  for (const int32_t length : {w - 1, w, w + 1, 3 * w})
    for (const int64_t page : {8, 24, 64})
      hold([&](Case& c) -> Op {
        return attend(c, {.queries = 2, .groups = 1, .size = 32, .page = page, .window = w},
                      {{.first_position = length - 1}});
      });
  for (const int64_t window : {1, 2, 7, 40})
    for (const Sequences& sequences : {kPrefill, Sequences{{.first_position = 100, .rows = 50}}})
      hold([&](Case& c) -> Op {
        return attend(c, {.queries = 2, .groups = 1, .size = 32, .window = window}, sequences);
      });
}

TEST(PagedAttention, HoldsForLongContextsAndLargeScores) {
  hold([](Case& c) -> Op {
    return attend(c, {.queries = 4, .groups = 2, .size = 64, .page = 32},
                  {{.first_position = 2500}, {.first_position = 1023}});
  });
  for (const double size : {30.0, 3000.0})
    hold([&](Case& c) -> Op { return attend(c, {.queries = 2, .groups = 1, .size = 64}, kMixed, size); });
}

// Rows and keys beyond one tile of any kernel, and pieces that begin inside one.
TEST(PagedAttention, HoldsForPromptsOfSeveralTiles) {
  const Sequences sequences = {
      {.first_position = 200}, {.first_position = 90, .rows = 81}, {.first_position = 0, .rows = 5}};
  for (const int64_t size : {64, 72, 128, 192, 256})
    for (const int64_t window : {0, 33})
      hold([&](Case& c) -> Op {
        return attend(c, {.queries = 3, .groups = 1, .size = size, .window = window}, sequences);
      });
}

TEST(PagedAttention, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const Sequences at_one = {{.first_position = 1}};
  PagedAttention op;
  op.out = c.poison(DType::F32, {1, 1, 2});
  op.q = c.floats({1, 1, 2}, {1, 2});
  op.scale = 0.5f;
  op.rows = c.rows(at_one);
  op.cache = {.keys = c.floats({1, 2, 1, 2}, {1, 0, 0, 1}),
              .values = c.floats({1, 2, 1, 2}, {1, 10, 2, 20}),
              .table = c.integers({1, 1}, {0})};
  c.just_run(op);
  const double first = std::exp(0.5), second = std::exp(1.0);
  EXPECT_FLOAT_EQ(op.out.as<float>()[0], static_cast<float>((first + 2 * second) / (first + second)));
  EXPECT_FLOAT_EQ(op.out.as<float>()[1], static_cast<float>(10 * (first + 2 * second) / (first + second)));
}

TEST(PagedAttention, AChangedInputIsSeen) {
  const auto make = [](Case& c) -> Op { return attend(c, {.queries = 4, .groups = 2, .size = 64}, kMixed); };
  plant(make, [](Op& op) { return std::get<PagedAttention>(op).q.row<float>(20); });
}

// One key too many or too few at either end of the window.
TEST(PagedAttention, AWindowOffByOneIsSeen) {
  for (Subject& subject : subjects()) {
    for (const int64_t off : {-1, 1}) {
      Case c(subject);
      const PagedAttention op =
          attend(c, {.queries = 2, .groups = 1, .size = 32, .window = 24}, {{.first_position = 60}});
      PagedAttention other = op;
      other.window += off;
      const Op steps[] = {other};
      EXPECT_NE(c.run_as(op, steps), "") << subject.name;
    }
  }
}

TEST(GateBy, HoldsForStridedGatesAndExtremes) {
  for (const double size : {1.0, 30.0, 200.0})
    for (const int64_t tokens : {0, 1, 5})
      for (const int64_t width : {8, 33, 256})
        for (const int64_t heads : {1, 3})
          hold([&](Case& c) -> Op {
            const DType type = c.activation_type();
            return GateBy{.x = c.numbers({tokens, heads, width}, 1, type),
                          .gate = c.strided_numbers(tokens, heads * 2 * width, size, type)
                                      .split_columns(heads)
                                      .slice_columns(width, width)};
          });
}

TEST(GateBy, AChangedInputIsSeen) {
  const auto make = [](Case& c) -> Op { return GateBy{c.numbers({3, 2, 32}), c.numbers({3, 2, 32})}; };
  plant(make, [](Op& op) { return std::get<GateBy>(op).x.row<float>(1) + 40; });
  plant(make, [](Op& op) { return std::get<GateBy>(op).gate.row<float>(2) + 1; });
}

TEST(GateBy, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const GateBy op{c.floats({1, 1, 2}, {3, 4}), c.floats({1, 1, 2}, {0, 1})};
  c.just_run(op);
  EXPECT_EQ(op.x.as<float>()[0], 1.5f);
  EXPECT_FLOAT_EQ(op.x.as<float>()[1], 4 / (1 + std::exp(-1.0f)));
}

}  // namespace
}  // namespace braid
