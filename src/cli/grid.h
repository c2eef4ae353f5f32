// Timing a model over a grid: decode steps by batch and context, prompts by length.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/model.h"
#include "base/json.h"

namespace braid::cli {

struct GridOptions {
  std::vector<int64_t> batches{1, 8, 32, 128};
  std::vector<int64_t> contexts{1024, 32768, 131072};
  std::vector<int64_t> prompts{512, 2048, 8192, 32768};
  int64_t chunk = 8192;  // rows of a prompt in one step
  int steps = 20;        // medians of so many decode steps
  bool profile = false;  // time by kind of op, in one more step of each cell
};

// {"limits": {"copy_gb_per_s", "gflop_per_s"}, "cells": [{"kind": "decode" or "prefill", "batch", "context", "fits",
// "tokens_per_s", "ms", "gb", "gflop", "bound", "share", "hash", "profile": [{"op", "ops", "ms"}]}]}. A decode cell's
// caches are filled with zeros, since time does not depend on them; a cell that does not fit has no times. `on_cell` is
// given each as it ends, beside the limits, which the first one that fits has measured.
using OnCell = std::function<void(const Json& cell, const Json& limits)>;
Json measure_grid(const OpenModel& model, const GridOptions& options, const OnCell& on_cell);

// Prints cells, one line each, below the limits and the names of the columns.
class GridPrinter {
 public:
  void print(const Json& cell, const Json& limits);

 private:
  bool begun_ = false;
};

}  // namespace braid::cli
