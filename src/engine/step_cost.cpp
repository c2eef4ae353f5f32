// SPDX-License-Identifier: Apache-2.0
#include "engine/step_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace braid {

double Recent::quantile(double share) const {
  std::array<double, kKept> sorted = values_;
  const size_t count = std::min(count_, kKept);
  if (count == 0) return 0;
  const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(count - 1)));
  std::nth_element(sorted.begin(), place, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return *place;
}

size_t StepCost::size_of(int64_t answers) {
  return std::min<size_t>(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(answers))), kSizes - 1);
}

void StepCost::add(int64_t answers, int64_t prompt_rows, double seconds) {
  if (prompt_rows == 0) {
    Measured& measured = answers_[size_of(answers)];
    measured.answers.add(static_cast<double>(answers));
    measured.seconds.add(seconds);
    return;
  }
  const double more = std::max(seconds - answer_seconds(answers), 0.0);
  row_seconds_.add(more / static_cast<double>(prompt_rows));
  if (answer_seconds(answers) == 0) return;
  beside_.add(more / static_cast<double>(prompt_rows + kOfAny));
  last_rows_ = prompt_rows;
}

double StepCost::answer_seconds(int64_t answers) const {
  if (answers == 0) return 0;
  const size_t size = size_of(answers);
  // The nearest number of answers that was seen, fewer rather than more: fewer answers never take longer.
  for (size_t at = size; at > 0; --at)
    if (!answers_[at].seconds.empty()) return answers_[at].seconds.median();
  for (size_t at = size + 1; at < kSizes; ++at)
    if (!answers_[at].seconds.empty())
      return answers_[at].seconds.median() * static_cast<double>(answers) / answers_[at].answers.median();
  return 0;
}

int64_t StepCost::rows_beside(int64_t answers, double ratio) const {
  // As prompts are cut: pieces end on multiples of 64 where one is in reach.
  constexpr int64_t kPiece = 64, kLeast = 8;
  const double allowed = (ratio - 1) * answer_seconds(answers);
  if (allowed == 0 || beside_.empty()) return kPiece;
  const int64_t most = std::max(2 * last_rows_, kLeast);
  constexpr double kNearlyAll = 0.8;
  const double row = beside_.quantile(kNearlyAll);
  const double affordable = row > 0 ? allowed / row - kOfAny : static_cast<double>(most);
  const auto rows =
      static_cast<int64_t>(std::clamp(affordable, static_cast<double>(kLeast), static_cast<double>(most)));
  if (rows >= kPiece) return rows / kPiece * kPiece;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rows)));
}

}  // namespace braid
