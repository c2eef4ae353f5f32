// Holds one executor to another branch by branch: each branch gets the trusted executor's input and state; its output
// and the state it leaves are compared. Random recurrent models magnify rounding a thousandfold, so whole runs prove
// little about kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/step_runner.h"

namespace braid {

// The errors of one branch, the largest over all chunks: ||ours - trusted|| / ||trusted|| of the rows of a chunk
// together, and of a state array. Single rows say less: a norm inside a part divides by what may be a small difference
// of large numbers, and rounding is magnified by as much; `worst_row` is the largest error of one row by itself.
struct BranchError {
  int layer = 0;
  std::string part;
  double output = 0, state = 0, worst_row = 0;
  int64_t rows = 0;
  // Rows left out because the trusted router's choice is nearer to a tie than the error of the other's scores.
  int64_t near_ties = 0;
};

struct LayerwiseOptions {
  int64_t chunk = 0;         // rows of a pass; 0: all at once
  bool round_input = false;  // the other's inputs are rounded to bf16 first: with the trusted executor as the other,
                             // the errors tell how much each branch magnifies such rounding
};

// Runs `tokens` through both. Both models have the same spec; executors may keep keys and values in different types.
std::vector<BranchError> compare_branches(const LoadedModel& trusted, const LoadedModel& other,
                                          std::span<const int32_t> tokens, const LayerwiseOptions& options);

}  // namespace braid
