// SPDX-License-Identifier: Apache-2.0
#include "engine/step_cost.h"

#include <algorithm>
#include <bit>

namespace braid {
namespace {

// A running mean in which one disturbed measurement, counted at most twice its due, soon fades.
void blend(double& mean, double value) {
  constexpr double kWeight = 0.1;
  mean = mean == 0 ? value : mean + kWeight * (std::min(value, 2 * mean) - mean);
}

}  // namespace

size_t StepCost::size_of(int64_t answers) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(answers))), kSizes - 1);
}

void StepCost::add(int64_t answers, int64_t prompt_rows, double seconds) {
  if (prompt_rows == 0) {
    blend(seconds_[size_of(answers)], seconds);
    blend(rows_[size_of(answers)], static_cast<double>(answers));
    return;
  }
  const double row = (seconds - answer_seconds(answers)) / static_cast<double>(prompt_rows);
  if (row > 0) blend(row_seconds_, row);
}

double StepCost::answer_seconds(int64_t answers) const {
  if (answers == 0) return 0;
  const size_t size = size_of(answers);
  // The nearest number of answers that was seen, fewer rather than more: fewer answers never take longer.
  for (size_t at = size; at > 0; --at)
    if (seconds_[at] > 0) return seconds_[at];
  for (size_t at = size + 1; at < kSizes; ++at)
    if (seconds_[at] > 0) return seconds_[at] * static_cast<double>(answers) / rows_[at];
  return 0;
}

int64_t StepCost::rows_beside(int64_t answers, double ratio) const {
  constexpr int64_t kUnit = 16, kUnmeasured = 64;
  const double alone = answer_seconds(answers);
  if (alone == 0 || row_seconds_ == 0) return kUnmeasured;
  const double rows = std::min((ratio - 1) * alone / row_seconds_, 1e9);
  return std::max(static_cast<int64_t>(rows) / kUnit * kUnit, kUnit);
}

}  // namespace braid
