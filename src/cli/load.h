// braid bench --serve: loads a server with requests and tells how long tokens take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "base/json.h"

namespace braid::cli {

struct Lengths {
  int64_t low = 0, high = 0;  // both are drawn, and what lies between
};

struct LoadOptions {
  std::string url, model, key;             // model: empty: the first that the server lists
  double rate = 0;                         // requests a second, at random times (Poisson); 0: `streams` instead
  int64_t streams = 8;                     // so many at a time, one after the other
  int64_t requests = 0;                    // 0: no limit but `seconds`; both 0: 100 requests
  double seconds = 0;                      // no request begins later
  Lengths prompt{64, 64}, answer{64, 64};  // tokens
  uint64_t seed = 1;                       // of texts, lengths and times
};

// --serve and what goes with it.
void add_load_options(CLI::App& app, LoadOptions& options);

// {"serve", "model", "load": {...}, "requests", "failed", "faults": [{"fault", "count"}], "seconds", "prompt_tokens",
// "answer_tokens", "tokens_per_s", "requests_per_s", "times": [{"kind", "mean_ms", "p50_ms", "p90_ms", "p99_ms",
// "most_ms", "shares_ms": [21 quantiles]}]}. An Input error where nobody listens, the server refuses the first request,
// or no request was answered.
Json measure_load(const LoadOptions& options);
void print_load(const Json& result);
std::string plot_load(const Json& result);
void compare_loads(const Json& before, const Json& after);

}  // namespace braid::cli
