// The families, one line each.
// SPDX-License-Identifier: Apache-2.0
#include "model/registry.h"

#include <fmt/ranges.h>

#include <map>

#include "base/error.h"
#include "model/families/family.h"

namespace braid {
namespace {

const std::map<std::string, families::Reader> kFamilies = {
    {"qwen3", families::read_qwen3},
    {"qwen3_moe", families::read_qwen3_moe},
    {"qwen3_next", families::read_qwen3_next},
    {"qwen3_5", families::read_qwen3_5},
    {"qwen3_5_text", families::read_qwen3_5},
    {"qwen3_5_moe", families::read_qwen3_5_moe},
    {"qwen3_5_moe_text", families::read_qwen3_5_moe},
};

// The part of a config that describes the language model, with what its wrapper says of it.
Json text_config(const Json& config, const std::string& place) {
  const auto nested = config.find("text_config");
  if (nested == config.end() || nested->is_null()) return config;
  if (!nested->is_object()) fail("{}: 'text_config' must be an object, found {}", place, nested->dump());
  Json text = *nested;
  for (const char* key : {"model_type", "tie_word_embeddings", "quantization_config", "dtype", "torch_dtype"})
    if (text.value(key, Json()).is_null() && config.contains(key)) text[key] = config[key];
  if (config.value("tie_word_embeddings", Json()) == true) text["tie_word_embeddings"] = true;  // either may say it
  return text;
}

}  // namespace

std::vector<std::string> known_families() {
  std::vector<std::string> names;
  for (const auto& [name, reader] : kFamilies) names.push_back(name);
  return names;
}

ModelSpec read_model(const Json& config, const std::string& place, WeightPlan& plan, const ModelOptions& options) {
  if (!config.is_object()) fail("{}: not a JSON object", place);
  const Json text = text_config(config, place);
  ConfigReader reader(text, place);
  const std::string type = reader.text("model_type", "");
  const auto family = kFamilies.find(type);
  if (family == kFamilies.end())
    fail("{}: model_type '{}' is not supported; what runs: {}", place, type, fmt::join(known_families(), ", "));
  ModelSpec model = family->second({reader, plan, options});
  plan.finish();
  reader.finish();  // a warning, after all that may be refused
  return model;
}

}  // namespace braid
