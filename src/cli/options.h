// What several commands take: the model, the device, and how it is loaded. One struct, one place that names the flags.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/model.h"

namespace braid::cli {

// MODEL as the first positional argument, and --device, --threads, --activations, --kv-dtype, --no-mmap, --mlock,
// --context,
// --chat-template, --rope-scaling.
void add_model_options(CLI::App& app, OpenOptions& options);
// Only --device, --threads and --activations, for commands that name no model of their own.
void add_device_options(CLI::App& app, DeviceOptions& options);

// --temperature, --top-k, --top-p, --min-p, penalties, --logit-bias, --seed, --max-tokens, --stop.
struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p, repetition, frequency, presence;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::vector<std::string> stop;
  int64_t max_tokens = -1;  // -1: until the model stops or the context is full
};
void add_sampling_options(CLI::App& app, SamplingOptions& options);

// --json where a command has figures to hand on.
void add_json_option(CLI::App& app, bool& json);

}  // namespace braid::cli
