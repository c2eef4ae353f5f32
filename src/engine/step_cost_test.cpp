// SPDX-License-Identifier: Apache-2.0
#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "engine/scheduler.h"

namespace braid {
namespace {

TEST(Recent, KnowsTheLastFifteen) {
  Recent recent;
  EXPECT_TRUE(recent.empty());
  EXPECT_EQ(recent.median(), 0);
  recent.add(100);
  EXPECT_EQ(recent.median(), 100);
  for (const double value : {1, 2, 3}) recent.add(value);
  EXPECT_EQ(recent.median(), 3);
  EXPECT_EQ(recent.quantile(1), 100);
  for (int i = 0; i < 15; ++i) recent.add(50 + i);
  EXPECT_EQ(recent.median(), 57);
  EXPECT_EQ(recent.quantile(0.8), 62);
  EXPECT_EQ(recent.quantile(1), 64);
}

TEST(StepCost, BeforeAnythingIsMeasuredItIsOnePiece) {
  StepCost cost;
  EXPECT_EQ(cost.rows_beside(8, 2), 64);
  EXPECT_EQ(cost.answer_seconds(8), 0);
  cost.add(0, 512, 0.5);
  EXPECT_EQ(cost.rows_beside(8, 2), 64);
  EXPECT_DOUBLE_EQ(cost.row_seconds(), 0.5 / 512);
}

TEST(StepCost, FewerAnswersNeverTakeLonger) {
  StepCost cost;
  cost.add(8, 0, 0.010);
  EXPECT_DOUBLE_EQ(cost.answer_seconds(8), 0.010);
  EXPECT_DOUBLE_EQ(cost.answer_seconds(100), 0.010);
  EXPECT_DOUBLE_EQ(cost.answer_seconds(2), 0.0025);
}

TEST(StepCost, RowsAreThoseThatTheLastStepsCouldAfford) {
  StepCost cost;
  cost.add(8, 0, 0.010);
  cost.add(8, 64, 0.014);
  EXPECT_EQ(cost.rows_beside(8, 2), 128);    // 184 and 16 of any cost 10 ms
  EXPECT_EQ(cost.rows_beside(8, 10), 128);   // no more than double of what was seen
  EXPECT_EQ(cost.rows_beside(8, 1.25), 32);  // 34
  EXPECT_EQ(cost.rows_beside(8, 1.2), 16);   // 24
  EXPECT_EQ(cost.rows_beside(8, 1.01), 8);   // the least
  for (int i = 0; i < 15; ++i) cost.add(8, 256, 0.030);
  EXPECT_EQ(cost.rows_beside(8, 2), 64);   // 120
  EXPECT_EQ(cost.rows_beside(8, 3), 256);  // what was paid
  EXPECT_EQ(cost.rows_beside(8, 6), 512);
}

// A machine where steps take so long, with a measurement in thirty that takes three times that; and what a prompt of
// 6,000 tokens does to 32 answers there.
struct Beside {
  double alone = 0;
  std::vector<double> ratios;  // of undisturbed time to that of a step without rows of prompts
};

Beside read_a_prompt(const std::function<double(int64_t, int64_t)>& seconds) {
  constexpr int64_t kAnswers = 32, kPrompt = 6000;
  std::mt19937 random(1);
  const auto measured = [&](int64_t answers, int64_t rows) {
    return seconds(answers, rows) * (random() % 30 == 0 ? 3.0 : 1.0);
  };
  StepCost cost;
  cost.add(0, 300, 50 * seconds(0, 300));  // what a first step has to touch
  for (int i = 0; i < 20; ++i) cost.add(kAnswers, 0, measured(kAnswers, 0));
  Beside beside{.alone = seconds(kAnswers, 0)};
  std::vector<SequenceView> views(kAnswers, SequenceView{.tokens = 10, .held = 9, .running = true});
  views.push_back({.tokens = kPrompt, .running = true});
  while (views.back().held < kPrompt) {
    const SchedulerLimits limits{.step_tokens = 4096,
                                 .chunk = 2048,
                                 .sequences = kAnswers + 1,
                                 .beside_answers = cost.rows_beside(kAnswers, 1.6)};
    const Decision decision = decide(views, {.free_pages = 1000, .free_slots = 1}, limits);
    EXPECT_EQ(decision.rows.size(), kAnswers + 1u);
    const int64_t rows = decision.rows.back().count;
    cost.add(kAnswers, rows, measured(kAnswers, rows));
    beside.ratios.push_back(seconds(kAnswers, rows) / beside.alone);
    views.back().held += rows;
  }
  return beside;
}

// Contract 20, on machines of very different kinds.
TEST(StepCost, NoStepBesideAnswersTakesThreeTimesTheTimeOfOneWithout) {
  struct Machine {
    const char* name;
    double step, answer, any, row;  // milliseconds
    size_t most_steps;              // that the prompt may take; 750: of 8 rows each
  };
  const Machine machines[] = {{"two cores, a small model", 0.5, 0.21, 1, 0.09, 200},
                              {"eight rows cost nearly what sixteen do", 0.5, 0.2, 2, 0.08, 400},
                              {"rows of prompts cost most of all", 1, 0.1, 0, 0.3, 750},
                              {"a GPU, where rows cost next to nothing", 9, 0.02, 1, 0.002, 40},
                              {"a GPU, a larger batch than answers", 9, 0.02, 2, 0.06, 200}};
  for (const Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    const Beside beside = read_a_prompt([&](int64_t answers, int64_t rows) {
      return machine.step + machine.answer * static_cast<double>(answers) + (rows > 0 ? machine.any : 0) +
             machine.row * static_cast<double>(rows);
    });
    size_t slow = 0, above = 0;
    for (const double ratio : beside.ratios) slow += ratio >= 3 ? 1 : 0, above += ratio > 1.6 ? 1 : 0;
    EXPECT_LE(slow, 1u) << "of " << beside.ratios.size();  // the first, before anything was measured
    EXPECT_LE(20 * above, beside.ratios.size());           // the pieces end below the ratio that was asked for
    EXPECT_LE(beside.ratios.size(), machine.most_steps);
  }
}

}  // namespace
}  // namespace braid
