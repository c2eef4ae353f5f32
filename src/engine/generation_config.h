// A model's own defaults for sampling, what is said over them, and the tokens that end its answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/request.h"

namespace braid {

struct GenerationConfig {
  Sampling sampling;
  std::vector<int32_t> end_tokens;
};

// What is said over a model's defaults, by a command line or an operator.
struct SamplingOverrides {
  std::optional<float> temperature, top_p, min_p, repetition, frequency, presence;
  std::optional<int32_t> top_k;
};
Sampling with_overrides(Sampling sampling, const SamplingOverrides& overrides);

// Reads generation_config.json: do_sample (false: temperature 0), temperature, top_k, top_p, min_p, repetition_penalty,
// eos_token_id. What is absent or null stays neutral; other keys are left alone. A wrong value is an Input error that
// begins "<name>: <key>: ".
GenerationConfig parse_generation_config(const Json& json, const std::string& name);

// The tokens under "eos_token_id", a number or a list of numbers, of generation_config.json or config.json.
std::vector<int32_t> parse_end_tokens(const Json& json, const std::string& name);

}  // namespace braid
