// What rounding the operands of products to bf16, and nothing else, does to a whole model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "ops/wrappers/passing.h"

namespace braid::tests {

// A router's scores of every row, [rows, experts], of which the `chosen` largest choose.
struct Scores {
  int64_t chosen = 0, experts = 0;
  std::vector<float> values;
  bool carried = false;  // a later part carries what a row chose into the rows after it
};

// Computes as `inner` does, which works on the host in f32, but on rounded operands where `round`, and keeps the scores
// that routers saw.
class Rounded : public PassingExecutor {
 public:
  Rounded(Executor& inner, bool round) : PassingExecutor(inner), round_(round) {}
  const std::vector<Scores>& scores() const { return scores_; }
  void submit(const Op& op) override;

 private:
  // A rounded copy of `x` that lasts until the next op.
  Tensor rounded(const Tensor& x);
  bool round_;
  std::vector<float> copy_;
  std::vector<Scores> scores_;
};

// Which of so many rows owe nothing to a near tie: a router's choice, in this row or in one that was carried on, whose
// last score is nearer to the next one than rounding moved the two.
std::vector<bool> decided_rows(const std::vector<Scores>& exact, const std::vector<Scores>& rounded, size_t count);

}  // namespace braid::tests
