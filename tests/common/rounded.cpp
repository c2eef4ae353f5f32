// SPDX-License-Identifier: Apache-2.0
#include "rounded.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace braid::tests {
namespace {

std::vector<float> copied(const Tensor& x) {
  std::vector<float> out;
  for (int64_t row = 0; row < x.rows(); ++row) out.insert(out.end(), x.row<float>(row), x.row<float>(row) + x.width());
  return out;
}

bool near_tie(const Scores& exact, const Scores& rounded, size_t row) {
  if (exact.chosen == exact.experts) return false;
  const auto experts = static_cast<size_t>(exact.experts), last = static_cast<size_t>(exact.chosen - 1);
  std::vector<float> scores(experts);
  double moved = 0;
  for (size_t e = 0; e < experts; ++e) {
    scores[e] = exact.values[row * experts + e];
    moved = std::max(moved, std::fabs(static_cast<double>(scores[e]) - rounded.values[row * experts + e]));
  }
  std::ranges::sort(scores, std::greater());
  return static_cast<double>(scores[last]) - scores[last + 1] <= 2 * moved;
}

}  // namespace

Tensor Rounded::rounded(const Tensor& x) {
  copy_ = copied(x);
  for (float& value : copy_) value = bf16_to_float(float_to_bf16(value));
  return Tensor(reinterpret_cast<std::byte*>(copy_.data()), DType::F32, {x.rows(), x.width()});
}

void Rounded::submit(const Op& op) {
  if (const auto* route = std::get_if<Route>(&op))
    scores_.push_back({route->chosen.width(), route->logits.width(), copied(route->logits)});
  if (std::holds_alternative<PagedAttention>(op) || std::holds_alternative<DeltaRule>(op))
    for (Scores& earlier : scores_) earlier.carried = true;
  Op changed = op;
  if (auto* linear = std::get_if<Linear>(&changed)) {
    if (round_ && !linear->exact) linear->x = rounded(linear->x);
  } else if (auto* gated = std::get_if<GatedLinear>(&changed)) {
    if (round_) gated->x = rounded(gated->x);
  } else if (auto* experts = std::get_if<Experts>(&changed)) {
    if (round_) experts->x = rounded(experts->x);
  }
  inner_.submit(changed);
}

std::vector<bool> decided_rows(const std::vector<Scores>& exact, const std::vector<Scores>& rounded, size_t count) {
  CHECK(exact.size() == rounded.size());
  std::vector<bool> decided(count, true);
  for (size_t router = 0; router < exact.size(); ++router) {
    const bool carried = exact[router].carried;
    for (size_t row = 0; row < count; ++row)
      if (near_tie(exact[router], rounded[router], row)) {
        std::fill(decided.begin() + static_cast<int64_t>(row),
                  carried ? decided.end() : decided.begin() + static_cast<int64_t>(row + 1), false);
        if (carried) break;
      }
  }
  return decided;
}

}  // namespace braid::tests
