// What steps cost, as measured while they run: how much of a prompt may go beside answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace braid {

// What was measured last, of which a few disturbed measurements, or those of a cold start, say nothing.
class Recent {
 public:
  void add(double value) { values_[count_++ % kKept] = value; }
  bool empty() const { return count_ == 0; }
  // What so large a share of them does not exceed; 0: nothing was measured.
  double quantile(double share) const;
  double median() const { return quantile(0.5); }

 private:
  static constexpr size_t kKept = 15;
  std::array<double, kKept> values_{};
  size_t count_ = 0;  // of all values
};

// A step of some answers (a row each) and some rows of prompts takes the time of the answers alone, so much more for
// there being others, and so much more for each of them. That is no constant: a row costs more at the end of a long
// prompt than at its beginning. What the last steps paid is asked to be what the next one pays, which is right once
// their rows are as many as are allowed, whatever the share of the part that all rows have in common is thought to be.
class StepCost {
 public:
  void add(int64_t answers, int64_t prompt_rows, double seconds);
  // Seconds of a step with so many answers and nothing else; 0 when nothing like it was seen.
  double answer_seconds(int64_t answers) const;
  // Seconds of one more row of a prompt; 0 when none was seen.
  double row_seconds() const { return row_seconds_.median(); }
  // How many rows of prompts keep nearly all steps below `ratio` times the time that answers alone usually take: a
  // multiple of 64, below that 32, 16 or 8. Before anything was measured: 64; and no more than double of what the last
  // such step had.
  int64_t rows_beside(int64_t answers, double ratio) const;

 private:
  // What any rows of prompts cost beside answers is about what so many more of them would. Were it none, a piece of few
  // rows would seem to cost as much more in twice the size, and never become larger.
  static constexpr int64_t kOfAny = 16;
  static constexpr size_t kSizes = 24;  // number of answers, by its power of two
  static size_t size_of(int64_t answers);
  struct Measured {
    Recent answers, seconds;
  };
  std::array<Measured, kSizes> answers_;  // of steps with nothing else
  Recent row_seconds_, beside_;           // a row of a prompt: in any step, and in one with answers, of kOfAny more
  int64_t last_rows_ = 0;                 // of prompts, in the last step with answers as well
};

}  // namespace braid
