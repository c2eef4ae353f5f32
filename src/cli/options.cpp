// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include "base/error.h"

namespace braid::cli {

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

void add_model_options(CLI::App& app, OpenOptions& options) {
  app.add_option("MODEL", options.model, "folder with config.json and safetensors, or an id in the Hugging Face cache")
      ->required();
  add_device_options(app, options.device);
  app.add_option("--kv-dtype", options.device.kv_dtype, "keys and values: auto, f32 or bf16")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_option("--context", options.context, "longest context; 0: what the model allows")
      ->check(CLI::Range(int64_t{0}, int64_t{INT32_MAX}))
      ->capture_default_str();
  app.add_flag("--no-mmap", options.read_files, "read the weights instead of mapping the files");
  app.add_flag("--mlock", options.lock, "keep the weights in memory");
  app.add_option("--chat-template", options.chat_template,
                 "file with a Jinja chat template to use instead of the model's");
  app.add_option("--rope-scaling", options.rope_scaling, "JSON object that replaces the config's rope_scaling");
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  app.add_option("--temperature", options.temperature, "0: always the most likely token");
  app.add_option("--top-k", options.top_k, "draw from the k most likely tokens; 0: all");
  app.add_option("--top-p", options.top_p, "draw from the fewest tokens with this share of probability");
  app.add_option("--min-p", options.min_p, "drop tokens below this share of the most likely one's probability");
  app.add_option("--repetition-penalty", options.repetition, "divide the logits of tokens seen before");
  app.add_option("--frequency-penalty", options.frequency, "subtract per occurrence in the answer");
  app.add_option("--presence-penalty", options.presence, "subtract once for what occurred in the answer");
  app.add_option("--logit-bias", options.logit_bias, "ID=BIAS, may be given several times")->allow_extra_args(false);
  app.add_option("--seed", options.seed, "makes draws repeatable")->check(CLI::NonNegativeNumber);
  app.add_option("--max-tokens", options.max_tokens, "longest answer; -1: no limit but the context")
      ->check(CLI::Range(int64_t{-1}, int64_t{INT32_MAX}))
      ->capture_default_str();
  app.add_option("--stop", options.stop, "end the answer before this text, may be given several times")
      ->allow_extra_args(false);
}

void add_json_option(CLI::App& app, bool& json) { app.add_flag("--json", json, "print the figures as JSON"); }

}  // namespace braid::cli
