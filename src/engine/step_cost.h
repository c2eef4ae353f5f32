// What steps cost, as measured while they run: how much of a prompt may go beside answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace braid {

// A step of some answers (a row each) and some rows of prompts takes the time of the answers alone plus so much a row.
class StepCost {
 public:
  void add(int64_t answers, int64_t prompt_rows, double seconds);
  // Seconds of a step with so many answers and nothing else; 0 when nothing like it was seen.
  double answer_seconds(int64_t answers) const;
  // Seconds of one more row of a prompt; 0 when none was seen.
  double row_seconds() const { return row_seconds_; }
  // How many rows of prompts, a multiple of 16 and at least as many, keep a step below `ratio` times the time of its
  // answers. Before anything was measured: a few.
  int64_t rows_beside(int64_t answers, double ratio) const;

 private:
  static constexpr size_t kSizes = 24;  // number of answers, by its power of two
  static size_t size_of(int64_t answers);
  std::array<double, kSizes> seconds_{}, rows_{};  // running means: of a step, and of its answers
  double row_seconds_ = 0;
};

}  // namespace braid
