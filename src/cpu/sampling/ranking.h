// Choosing from one row of logits in descending order, without sorting the row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/sampling.h"

namespace braid::cpu {

// A row of logits and the sweeps over it that the instruction set provides. `largest` is greater than -infinity; NaN
// and -infinity are never chosen.
struct LogitRow {
  const float* logits = nullptr;
  int64_t width = 0;
  float largest = 0.0f;
  // Writes the tokens whose logits lie in (above, to], by ascending id; returns their number.
  int64_t (*collect)(const LogitRow& row, float above, float to, int32_t* tokens) = nullptr;
  // Sum over the row of e^((logit - largest) / temperature), in double.
  double (*total)(const LogitRow& row, double temperature) = nullptr;
  int32_t* tokens = nullptr;  // room for `width`
};

// The token that Sample's contract asks for; how.temperature > 0.
int32_t draw(const LogitRow& row, const SampleRow& how);

// The `count` largest tokens, descending; returns how many there are.
int64_t rank(const LogitRow& row, int64_t count, int32_t* tokens);

}  // namespace braid::cpu
