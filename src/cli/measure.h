// Timing a model on a device: prefill, and decode at growing context.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/model.h"
#include "base/json.h"

namespace braid::cli {

struct MeasureOptions {
  int64_t prefill = 512, decode = 128;
  std::vector<int64_t> contexts;  // where decode is measured beside after the prefill
  int repeats = 5;                // medians of so many runs
};

// One row of a benchmark. Rates are of the median run.
struct Measurement {
  std::string kind;  // "prefill" or "decode"
  int64_t tokens = 0, context = 0;
  double tokens_per_second = 0;
  double bytes_per_second = 0, flops_per_second = 0;  // of what the step has to move and compute (design 11.19)
  double share = 0;                                   // of the limit that binds: bytes or operations
  std::string bound;                                  // "bytes" or "operations"
};

struct Measured {
  double copy_bytes_per_second = 0, flops_per_second = 0;  // the machine's limits, measured in the same run
  double step_bytes = 0;                                   // of one decode step after the prefill
  std::vector<Measurement> rows;
  std::string hash;  // of the last logits and all greedy tokens
};

Measured measure(const OpenModel& model, const MeasureOptions& options);

// Everything a later comparison needs, and back.
Json to_json(const Measured& measured);

}  // namespace braid::cli
