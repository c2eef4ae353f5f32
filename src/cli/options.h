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

// MODEL as the first positional argument, --device, --threads, --activations, --kv-dtype, --context and --rope-scaling.
// `context` says what --context means to this command.
void add_model_options(CLI::App& app, OpenOptions& options, const std::string& context);
// --no-mmap and --mlock, for commands that load weights.
void add_loading_options(CLI::App& app, OpenOptions& options);

// --temperature, --top-k, --top-p, --min-p and penalties. `group`: the heading they stand under in --help.
void add_sampling_overrides(CLI::App& app, SamplingOverrides& overrides, const std::string& group);

// The same, and --logit-bias, --seed, --max-tokens, --stop.
struct SamplingOptions {
  SamplingOverrides overrides;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::vector<std::string> stop;
  int64_t max_tokens = -1;  // -1: until the model stops or the context is full
};
void add_sampling_options(CLI::App& app, SamplingOptions& options);

// Takes whole numbers of 64 bits, and refuses others in the words of the options above.
CLI::Validator whole_number();

// --json where a command has figures to hand on.
void add_json_option(CLI::App& app, bool& json);

// "" is no value: refuses it for every option of `app` and its commands, but where a text may be empty (PROMPT, TEXT,
// --separator).
void refuse_empty_values(CLI::App& app);

// `option` may not be given together with any of `others`; --help says so.
struct Exclusion {
  const char* option;
  std::vector<const char*> others;
};
void exclude(CLI::App& command, const std::vector<Exclusion>& exclusions);

}  // namespace braid::cli
