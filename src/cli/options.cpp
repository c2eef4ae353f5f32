// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace braid::cli {
namespace {

// Numbers that an option takes; `words` is how --help writes them. NaN lies in none.
struct Range {
  double low, high;
  const char* words;
};
constexpr double kMost = std::numeric_limits<float>::max();
constexpr Range kShare{0, 1, "[0, 1]"};
constexpr Range kFromZero{0, kMost, "[0, inf)"};
constexpr Range kAboveZero{std::numeric_limits<float>::min(), kMost, "(0, inf)"};
constexpr Range kFinite{-kMost, kMost, "finite"};

CLI::Validator within(const Range& range) {
  return {[range](const std::string& text) -> std::string {
            double value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= range.low && value <= range.high) return "";
            return fmt::format("expected a number, {}, found '{}'", range.words, text);
          },
          range.words};
}

void add_device_options(CLI::App& app, DeviceOptions& options) {
  app.add_option("--device", options.device, "auto, cpu, cuda or reference")->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--activations", [&options](const std::string& word) { options.fast = word == "fast"; },
         "fast: what the hardware does best; f32: f32 operands and cache")
      ->check(CLI::IsMember({"fast", "f32"}))
      ->default_str(options.fast ? "fast" : "f32");
}

}  // namespace

CLI::Validator whole_number() {
  static constexpr const char* kWords = "[0, 2^64)";
  return {[](const std::string& text) -> std::string {
            uint64_t value = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc() && end == text.data() + text.size()) return "";
            return fmt::format("expected a whole number, {}, found '{}'", kWords, text);
          },
          kWords};
}

void add_model_options(CLI::App& app, OpenOptions& options, const std::string& context) {
  app.add_option("MODEL", options.model, "folder with config.json and safetensors, or an id in the Hugging Face cache")
      ->required();
  add_device_options(app, options.device);
  app.add_option("--kv-dtype", options.device.kv_dtype, "keys and values: auto, f32 or bf16")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--context", options.context, context + "; 0: what the model allows and memory holds")
      ->check(CLI::Range(int64_t{0}, int64_t{INT32_MAX}))
      ->capture_default_str();
  app.add_option("--rope-scaling", options.rope_scaling, "JSON object that replaces the config's rope_scaling");
}

void add_loading_options(CLI::App& app, OpenOptions& options) {
  app.add_flag("--no-mmap", options.read_files, "read the weights instead of mapping the files");
  app.add_flag("--mlock", options.lock, "keep the weights in memory");
}

void add_sampling_overrides(CLI::App& app, SamplingOverrides& overrides, const std::string& group) {
  app.add_option("--temperature", overrides.temperature, "0: always the most likely token")
      ->check(within(kFromZero))
      ->group(group);
  app.add_option("--top-k", overrides.top_k, "draw from the k most likely tokens; 0: all")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->group(group);
  app.add_option("--top-p", overrides.top_p, "draw from the fewest tokens with this share of probability")
      ->check(within(kShare))
      ->group(group);
  app.add_option("--min-p", overrides.min_p, "drop tokens below this share of the most likely one's probability")
      ->check(within(kShare))
      ->group(group);
  app.add_option("--repetition-penalty", overrides.repetition, "divide the logits of tokens seen before; 1: off")
      ->check(within(kAboveZero))
      ->group(group);
  app.add_option("--frequency-penalty", overrides.frequency, "subtract per occurrence in the answer; 0: off")
      ->check(within(kFinite))
      ->group(group);
  app.add_option("--presence-penalty", overrides.presence, "subtract once for what occurred in the answer; 0: off")
      ->check(within(kFinite))
      ->group(group);
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  add_sampling_overrides(app, options.overrides, "Options");
  app.add_option("--logit-bias", options.logit_bias, "ID=BIAS, a number or -inf; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "makes draws repeatable")->check(whole_number());
  app.add_option("--max-tokens", options.max_tokens, "longest answer; -1: no limit but the context")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->capture_default_str();
  app.add_option("--stop", options.stop, "end the answer before this text, may be given several times")
      ->allow_extra_args(false);
}

void add_json_option(CLI::App& app, bool& json) { app.add_flag("--json", json, "print the figures as JSON"); }

void refuse_empty_values(CLI::App& app) {
  constexpr std::array<std::string_view, 3> kMayBeEmpty{"PROMPT", "TEXT", "--separator"};
  // At the front of an option's checks, since those of numbers take "" for 0.
  const CLI::Validator check([](std::string& value) { return value.empty() ? "the value is empty" : ""; }, "");
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0 && std::ranges::find(kMayBeEmpty, option->get_name()) == kMayBeEmpty.end())
      option->transform(check);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) refuse_empty_values(*command);
}

void exclude(CLI::App& command, const std::vector<Exclusion>& exclusions) {
  for (const Exclusion& exclusion : exclusions)
    for (const char* other : exclusion.others)
      command.get_option(exclusion.option)->excludes(command.get_option(other));
}

}  // namespace braid::cli
