// SPDX-License-Identifier: Apache-2.0
#include "ops/moe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/contract.h"

namespace braid {
namespace {

Route route(Case& c, const Tensor& logits, int64_t k, bool normalise = true) {
  return {.chosen = c.poison(DType::I32, {logits.rows(), k}),
          .weights = c.poison(DType::F32, {logits.rows(), k}),
          .logits = logits,
          .normalise = normalise};
}

TEST(Route, HoldsForEveryNumberOfExpertsAndChoices) {
  for (const bool normalise : {true, false})
    for (const int64_t experts : {1, 2, 8, 9, 60, 128, 512})
      for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{10}, experts})
        for (const int64_t rows : {0, 1, 7})
          if (k <= experts)
            hold([&](Case& c) -> Op { return route(c, c.strided_numbers(rows, experts, 4), k, normalise); });
}

TEST(Route, TiesGoToTheLowerIndex) {
  for (const int64_t k : {1, 3, 8}) {
    hold([&](Case& c) -> Op { return route(c, c.floats({1, 8}, {1, 2, 2, 0, 2, 1, 0, 0}), k); });
    hold([&](Case& c) -> Op { return route(c, c.floats({2, 8}, std::vector<float>(16, -3.0f)), k); });
    // Apart in f32, equal as probabilities.
    const float next = std::nextafter(0x1p-20f, 1.0f);
    hold([&](Case& c) -> Op { return route(c, c.floats({1, 8}, {0x1p-20f, next, 0, 0, 5, 0, 0, next}), k); });
  }
  for (const int64_t experts : {60, 128, 500})
    hold([&](Case& c) -> Op {
      std::vector<float> logits;
      for (int64_t i = 0; i < 2 * experts; ++i) logits.push_back(static_cast<float>(c.random(3)));
      return route(c, c.floats({2, experts}, logits), 10);
    });
  Case c(reference_subject());
  const Route op = route(c, c.floats({1, 5}, {1, 2, 2, 0, 2}), 3);
  c.just_run(op);
  for (const int i : {0, 1, 2}) EXPECT_EQ(op.chosen.as<int32_t>()[i], (std::array{1, 2, 4})[static_cast<size_t>(i)]);
  EXPECT_FLOAT_EQ(op.weights.as<float>()[1], 1 / 3.0f);
}

TEST(Route, HoldsAtExtremes) {
  hold([](Case& c) -> Op { return route(c, c.floats({1, 4}, {-INFINITY, 90, -90, 3e38f}), 4); });
  hold([](Case& c) -> Op { return route(c, c.floats({1, 4}, {-200, -INFINITY, -100, -300}), 2, false); });
}

TEST(Route, AChangedInputIsSeen) {
  plant(
      [](Case& c) -> Op {
        return route(c, c.numbers({2, 8}), 8);
      },
      [](Op& op) { return std::get<Route>(op).logits.row<float>(1) + 4; });
}

struct Mixture {
  int64_t tokens = 3, width = 64, inner = 32, experts = 8, k = 2;
  int64_t shared_inner = 0;  // 0: no shared expert
  bool shared_gate = false;
};

// Draws k different experts a row.
std::vector<int32_t> choices(Case& c, const Mixture& m) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < m.tokens; ++t) {
    std::vector<int32_t> left;
    for (int32_t e = 0; e < m.experts; ++e) left.push_back(e);
    for (int64_t slot = 0; slot < m.k; ++slot) {
      const auto at = left.begin() + c.random(std::ssize(left));
      out.push_back(*at);
      left.erase(at);
    }
  }
  return out;
}

Experts experts(Case& c, const Mixture& m, const Format& format, DType type = DType::F32) {
  Experts op;
  op.out = c.strided_poison(type, m.tokens, m.width);
  op.x = c.strided_numbers(m.tokens, m.width, 2, type);
  op.chosen = c.integers({m.tokens, m.k}, choices(c, m));
  op.weights = c.numbers({m.tokens, m.k}, 1);
  op.gate_up = c.weight(format, 2 * m.inner, m.width, m.experts);
  op.down = c.weight(format, m.width, m.inner, m.experts);
  if (m.shared_inner > 0) {
    if (m.shared_gate) op.shared_gate = c.numbers({m.tokens, 1}, 3);
    op.shared_gate_up = c.weight(format, 2 * m.shared_inner, m.width);
    op.shared_down = c.weight(format, m.width, m.shared_inner);
  }
  return op;
}

constexpr Mixture kMixtures[] = {{.tokens = 1},
                                 {.tokens = 0},
                                 {.tokens = 1, .width = 33, .inner = 7, .experts = 3, .k = 3},
                                 {.tokens = 2, .width = 128, .inner = 128, .experts = 4, .k = 1, .shared_inner = 64},
                                 {.tokens = 7, .shared_inner = 48, .shared_gate = true},
                                 {.tokens = 40, .experts = 5, .k = 5, .shared_inner = 32, .shared_gate = true},
                                 {.tokens = 90, .width = 130, .inner = 66, .experts = 16, .k = 4},
                                 {.tokens = 5, .experts = 64, .k = 8, .shared_inner = 16, .shared_gate = true}};

TEST(Experts, HoldForEveryFormatAndShape) {
  for (const Format& format : all_formats())
    for (const DType type : {DType::F32, DType::BF16})
      for (const Mixture& m : kMixtures) hold([&](Case& c) -> Op { return experts(c, m, format, type); });
}

// Rows and extents that suit every kernel.
Experts aligned_experts(Case& c, const Mixture& m, const Format& format, DType type = DType::F32) {
  Experts op = experts(c, m, format, type);
  op.out = c.poison(type, {m.tokens, m.width});
  op.x = c.numbers({m.tokens, m.width}, 2, type);
  return op;
}

TEST(Experts, HoldForAlignedRowsOfEveryFormat) {
  constexpr Mixture kAligned[] = {
      {.tokens = 1, .width = 256, .inner = 128, .k = 4, .shared_inner = 256, .shared_gate = true},
      {.tokens = 3, .width = 384, .inner = 256, .experts = 5},
      {.tokens = 8, .width = 128, .inner = 128, .experts = 9, .k = 8, .shared_inner = 128},
      {.tokens = 40, .width = 256, .inner = 256, .experts = 4, .shared_inner = 128, .shared_gate = true},
      {.tokens = 210, .width = 384, .inner = 384, .experts = 2, .k = 1}};
  for (const Format& format : all_formats())
    for (const Mixture& m : kAligned) {
      hold([&](Case& c) -> Op { return aligned_experts(c, m, format); });
      if (m.tokens < 9) hold([&](Case& c) -> Op { return aligned_experts(c, m, format, DType::BF16); });
    }
}

// Columns in whole groups of NVFP4 and in several rounds of copies.
TEST(Experts, HoldForFewRowsOfWideExperts) {
  constexpr Mixture kFew[] = {
      {.tokens = 1, .width = 2304, .inner = 256, .experts = 3, .k = 1, .shared_inner = 256, .shared_gate = true},
      {.tokens = 5, .width = 256, .inner = 256, .experts = 9, .k = 2, .shared_inner = 512},
      {.tokens = 2, .width = 256, .inner = 768, .experts = 4, .k = 3}};
  for (const Format& format : {Format(Dense{DType::BF16}), Format(Fp8Block{}), Format(Nvfp4{})})
    for (const Mixture& m : kFew) hold([&](Case& c) -> Op { return aligned_experts(c, m, format); });
}

// Few and many slots an expert, with a shared expert of the same extents; from 256 rows on FP8 codes its inputs.
TEST(Experts, HoldForSortedSlots) {
  constexpr Mixture kFew{
      .tokens = 9, .width = 256, .inner = 128, .experts = 16, .k = 3, .shared_inner = 128, .shared_gate = true};
  constexpr Mixture kMany{.tokens = 110, .width = 256, .inner = 128, .experts = 2, .k = 1, .shared_inner = 128};
  for (const Format& format : {Format(Dense{DType::BF16}), Format(Fp8Block{}), Format(Nvfp4{})}) {
    hold([&](Case& c) -> Op { return aligned_experts(c, kFew, format, DType::BF16); });
    hold([&](Case& c) -> Op { return aligned_experts(c, kMany, format); });
  }
  constexpr Mixture kCoded[] = {{.tokens = 258, .width = 128, .inner = 128, .experts = 3, .k = 1, .shared_inner = 128},
                                {.tokens = 257, .width = 128, .inner = 128, .experts = 50, .k = 1}};
  for (const Mixture& m : kCoded) hold([&](Case& c) -> Op { return aligned_experts(c, m, Fp8Block{}); });
}

TEST(Experts, HoldWhereAllRowsChooseOneExpert) {
  for (const int64_t tokens : {1, 3, 50}) {
    hold([&](Case& c) -> Op {
      const Mixture m{.tokens = tokens, .k = 1, .shared_inner = 32, .shared_gate = true};
      Experts op = experts(c, m, Dense{DType::BF16});
      op.chosen = c.integers({tokens, 1}, std::vector<int32_t>(static_cast<size_t>(tokens), 7));
      return op;
    });
  }
}

TEST(Experts, ARowDoesNotDependOnOtherRows) {
  for (Subject& subject : subjects()) {
    if (!subject.executor->rows_independent()) continue;
    for (const Format& format : all_formats()) {
      Case c(subject);
      const Mixture m{.tokens = 40, .shared_inner = 32, .shared_gate = true};
      const Experts all = experts(c, m, format);
      c.just_run(all);
      for (const int64_t count : {1, 2, 9}) {
        Experts part = all;
        part.out = c.poison(DType::F32, {count, m.width});
        for (Tensor* rows : {&part.x, &part.chosen, &part.weights, &part.shared_gate})
          *rows = rows->slice_rows(11, count);
        c.just_run(part);
        for (int64_t t = 0; t < count; ++t)
          for (int64_t i = 0; i < m.width; ++i)
            ASSERT_EQ(part.out.row<float>(t)[i], all.out.row<float>(11 + t)[i]) << subject.name << " " << count;
      }
    }
  }
}

TEST(Experts, AgreeWithTheFormulaByHand) {
  Case c(reference_subject());
  Experts op;
  op.out = c.poison(DType::F32, {1, 1});
  op.x = c.floats({1, 1}, {2});
  op.chosen = c.integers({1, 1}, {0});
  op.weights = c.floats({1, 1}, {0.5f});
  op.gate_up = c.weight({1, 3}, 2, 1);
  op.down = c.weight({7}, 1, 1);
  op.shared_gate = c.floats({1, 1}, {0});
  op.shared_gate_up = c.weight({0.5f, 1}, 2, 1);
  op.shared_down = c.weight({11}, 1, 1);
  c.just_run(op);
  const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  EXPECT_FLOAT_EQ(op.out.as<float>()[0], static_cast<float>(0.5 * silu(2) * 6 * 7 + 0.5 * silu(1) * 2 * 11));
}

TEST(Experts, AChangedInputIsSeen) {
  const Mixture m{.tokens = 4, .shared_inner = 32, .shared_gate = true};
  for (const Format& format : all_formats()) {
    const auto make = [&](Case& c) -> Op { return experts(c, m, format); };
    plant(make, [](Op& op) { return std::get<Experts>(op).x.row<float>(3) + 9; });
    plant(make, [](Op& op) { return std::get<Experts>(op).weights.row<float>(2) + 1; });
    plant(make, [](Op& op) { return std::get<Experts>(op).shared_gate.row<float>(1); });
  }
}

}  // namespace
}  // namespace braid
