// Opening a model on a device: folder, plan, memory check, weights, tokenizer, template, defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "api/device.h"
#include "base/json.h"
#include "engine/generation_config.h"
#include "engine/sampler.h"
#include "engine/step_runner.h"
#include "model/spec.h"
#include "ops/executor.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/table.h"

namespace braid {

// Random weights in place of a checkpoint's: for speed, and for what a config alone can tell.
struct RandomWeights {
  std::string format = "bf16";  // bf16, f32, fp8_block: of the matrices that published files of that kind code so
  int64_t layers = 0;           // the first so many; 0: all
  uint64_t seed = 1;
};

struct OpenOptions {
  std::string model;  // folder, or id in the Hugging Face cache
  DeviceOptions device;
  int64_t context = 0;        // tokens a sequence may have; 0: what the model allows and memory holds
  int32_t sequences = 1;      // how many at a time
  bool read_files = false;    // read the weights instead of mapping the files
  bool lock = false;          // keep the weights in memory
  std::string chat_template;  // file to use instead of the model's template
  std::string rope_scaling;   // JSON object that replaces the config's
  std::optional<RandomWeights> random;
};

// What can be said of a model before a byte of its weights is read; config.json alone is enough.
struct PlannedModel {
  std::filesystem::path folder;
  Json config;
  std::shared_ptr<const Checkpoint> checkpoint;  // null: the folder holds no weights
  WeightPlan plan;
  ModelSpec spec;  // with state handles for `cache_type`
};
PlannedModel plan_model(const OpenOptions& options, DType cache_type);

// Bytes of state that one sequence needs: per token, and whatever its length.
struct StateBytes {
  int64_t per_token = 0, per_sequence = 0;
};
StateBytes state_bytes(const ModelSpec& spec);

// A model that is ready to run. Members die in the reverse order: weights before the executor that holds them.
struct OpenModel {
  std::filesystem::path folder;
  std::unique_ptr<Executor> executor;
  ModelSpec spec;
  WeightTable weights;
  std::optional<Tokenizer> tokenizer;         // absent: the folder has none
  std::optional<ChatTemplate> chat_template;  // absent: raw completion
  GenerationConfig generation;
  int64_t context = 0;
  int64_t free_memory = 0;  // bytes of the executor's memory that the weights leave

  LoadedModel loaded() const { return {*executor, spec, weights}; }
};

// Errors name the file, tensor or key. A Resource error with the arithmetic when weights and state do not fit in
// memory; a context that was not asked for is shortened to what fits, and the log says so.
OpenModel open_model(const OpenOptions& options);

// bos_token, eos_token and others as templates know them; an empty object when there is no tokenizer.
Json special_tokens(const OpenModel& model);

// Refuses the first stored value that is not finite, which may be why no logit is.
void check_stored_values(const OpenModel& model);

// The tokens that the model's tokenizer has; all of the vocabulary when there is no tokenizer.
TokenSet allowed_tokens(const OpenModel& model);

}  // namespace braid
