// SPDX-License-Identifier: Apache-2.0
#include "api/model.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "model/registry.h"
#include "weights/model_folder.h"

namespace braid {
namespace {

bool has_weights(const std::filesystem::path& folder) {
  return std::ranges::any_of(list_folder(folder), [](const std::filesystem::path& path) {
    return path.extension() == ".safetensors" || path.filename() == "model.safetensors.index.json";
  });
}

ModelOptions model_options(const OpenOptions& options) {
  if (options.rope_scaling.empty()) return {};
  Json scaling;
  try {
    scaling = parse_json(options.rope_scaling, "--rope-scaling");
  } catch (const Error& error) {
    throw Error(ErrorKind::Usage, error.message());
  }
  if (!scaling.is_object()) fail(ErrorKind::Usage, "--rope-scaling: expected a JSON object");
  return {.rope_scaling = std::move(scaling)};
}

// A config as a file of that format and so many layers would have it.
Json adapted(Json config, const RandomWeights& random) {
  Json& text = config.contains("text_config") ? config["text_config"] : config;
  if (random.layers > 0) text["num_hidden_layers"] = random.layers;
  if (random.layers > 0 && text.contains("layer_types")) {
    Json& types = text["layer_types"];
    while (types.is_array() && std::ssize(types) > random.layers) types.erase(types.size() - 1);
  }
  config.erase("quantization_config");
  if (random.format == "fp8_block") {
    config["quantization_config"] = {
        {"quant_method", "fp8"},
        {"weight_block_size", {128, 128}},
        {"modules_to_not_convert", {"in_proj_a", "in_proj_b", "in_proj_ba", "mlp.gate", "shared_expert_gate", "fc"}}};
  } else if (random.format == "nvfp4") {
    config["quantization_config"] = {
        {"quant_method", "compressed-tensors"},
        {"format", "nvfp4-pack-quantized"},
        {"ignore", {"in_proj_a", "in_proj_b", "in_proj_ba", "mlp.gate", "shared_expert_gate", "fc"}}};
  } else if (random.format == "f32") {
    text["dtype"] = "float32";
  } else if (random.format != "bf16") {
    fail(ErrorKind::Usage, "--format {}: random weights come as bf16, f32, fp8_block or nvfp4", random.format);
  }
  return config;
}

double gigabytes(auto bytes) { return static_cast<double>(bytes) / 1e9; }

// The context to serve: what was asked for if it fits, else what fits.
int64_t fitting_context(const OpenOptions& options, const ModelSpec& spec, int64_t weight_bytes, int64_t available) {
  const StateBytes state = state_bytes(spec);
  const int64_t sequences = options.sequences;
  const int64_t fixed = weight_bytes + sequences * state.per_sequence;
  const int64_t wanted = options.context > 0 ? options.context : spec.context;
  const double needed =
      static_cast<double>(fixed) + static_cast<double>(sequences * wanted) * static_cast<double>(state.per_token);
  if (needed <= static_cast<double>(available)) {
    if (wanted > spec.context)
      log::warn("context {} is longer than the {} tokens the model was made for", wanted, spec.context);
    return wanted;
  }
  const int64_t room = state.per_token == 0 ? 0 : (available - fixed) / (sequences * state.per_token);
  const std::string sums = fmt::format(
      "{:.2f} GB of weights + {} sequences x ({:.3f} GB + {} tokens x {} bytes) = {:.2f} GB, and {:.2f} GB are "
      "available",
      gigabytes(weight_bytes), sequences, gigabytes(state.per_sequence), wanted, state.per_token, gigabytes(needed),
      gigabytes(available));
  constexpr int64_t kUsefulContext = 256;
  if (options.context > 0 || room < std::min(kUsefulContext, wanted))
    fail(ErrorKind::Resource, "the model does not fit in memory: {}", sums);
  log::warn("context shortened to {} tokens: {}", room, sums);
  return room;
}

std::optional<ChatTemplate> find_template(const OpenOptions& options, const std::optional<Tokenizer>& tokenizer) {
  if (!options.chat_template.empty()) return ChatTemplate(read_whole(options.chat_template), options.chat_template);
  const std::string* source = tokenizer ? tokenizer->chat_template() : nullptr;
  if (source == nullptr) return std::nullopt;
  return ChatTemplate(*source, "chat template");
}

// What a config says of the tokens that end an answer: it, or the part of it that describes the language model.
std::vector<int32_t> config_end_tokens(const std::filesystem::path& folder, const Json& config) {
  const std::string place = (folder / "config.json").string();
  const std::vector<int32_t> tokens = parse_end_tokens(config, place);
  const auto text = config.find("text_config");
  if (!tokens.empty() || text == config.end() || !text->is_object()) return tokens;
  return parse_end_tokens(*text, place + ": text_config");
}

// Answers end with what generation_config.json names, or else the config, and with the tokenizer's own end of text.
GenerationConfig read_generation(const std::filesystem::path& folder, const Json& config,
                                 const std::optional<Tokenizer>& tokenizer) {
  const std::filesystem::path file = folder / "generation_config.json";
  GenerationConfig generation;
  if (is_there(file)) generation = parse_generation_config(read_json(file), file.string());
  std::vector<int32_t>& ends = generation.end_tokens;
  if (ends.empty()) ends = config_end_tokens(folder, config);
  if (!tokenizer) return generation;
  if (const auto eos = tokenizer->eos(); eos && std::ranges::find(ends, *eos) == ends.end()) ends.push_back(*eos);
  if (ends.empty()) log::warn("no token is known that ends an answer folder={}", folder.string());
  return generation;
}

}  // namespace

PlannedModel plan_model(const OpenOptions& options, DType cache_type) {
  const std::filesystem::path folder = find_model(options.model);
  Json config = read_json(folder / "config.json");
  config_end_tokens(folder, config);  // its faults are the config's: found by describe too
  std::shared_ptr<const Checkpoint> checkpoint;
  if (options.random)
    config = adapted(std::move(config), *options.random);
  else if (has_weights(folder))
    checkpoint = std::make_shared<const Checkpoint>(
        folder, CheckpointOptions{.mode = options.read_files ? MappedFile::Mode::Read : MappedFile::Mode::Map,
                                  .lock = options.lock});
  const std::string place = (folder / "config.json").string();
  WeightPlan plan = with_context(place, [&] { return WeightPlan(checkpoint.get(), config); });
  ModelSpec spec = read_model(config, place, plan, model_options(options));
  claim_state(spec, cache_type);
  return {folder, std::move(config), std::move(checkpoint), std::move(plan), std::move(spec)};
}

StateBytes state_bytes(const ModelSpec& spec) {
  StateBytes bytes;
  for (const StateNeed& need : spec.needs) {
    bytes.per_token += need.bytes_per_token;
    bytes.per_sequence += need.bytes_per_sequence;
  }
  return bytes;
}

OpenModel open_model(const OpenOptions& options) {
  OpenModel model;
  model.executor = make_executor(options.device);
  PlannedModel planned = plan_model(options, model.executor->cache_type());
  if (!planned.checkpoint && !options.random) fail("{}: holds no safetensors file", planned.folder.string());
  model.folder = planned.folder;
  if (is_there(model.folder / "tokenizer.json")) model.tokenizer = Tokenizer::load(model.folder);
  model.chat_template = find_template(options, model.tokenizer);
  model.generation = read_generation(model.folder, planned.config, model.tokenizer);
  const int64_t available = model.executor->available_memory();
  model.context = fitting_context(options, planned.spec, planned.plan.bytes(), available);
  model.weights = options.random ? random_weights(planned.plan, *model.executor, options.random->seed)
                                 : load_weights(planned.plan, planned.checkpoint, *model.executor);
  // Pages of mapped files count as available, though a step reads them all.
  model.free_memory = std::min(available - planned.plan.bytes(), model.executor->available_memory());
  model.spec = std::move(planned.spec);
  return model;
}

void check_stored_values(const OpenModel& model) {
  if (has_weights(model.folder)) check_values(Checkpoint(model.folder));
}

Json special_tokens(const OpenModel& model) {
  Json out = Json::object();
  if (!model.tokenizer) return out;
  const TokenizerConfig& config = model.tokenizer->config();
  const std::pair<const char*, const std::optional<std::string>*> named[] = {{"bos_token", &config.bos_token},
                                                                             {"eos_token", &config.eos_token},
                                                                             {"pad_token", &config.pad_token},
                                                                             {"unk_token", &config.unk_token}};
  for (const auto& [name, token] : named)
    if (*token) out[name] = **token;
  return out;
}

TokenSet allowed_tokens(const OpenModel& model) {
  if (!model.tokenizer) return {};
  TokenSet allowed(static_cast<size_t>((model.spec.vocabulary + 31) / 32), 0);
  for (int32_t id = 0; id < model.spec.vocabulary; ++id)
    if (model.tokenizer->has(id)) allowed[static_cast<size_t>(id / 32)] |= static_cast<int32_t>(1u << (id % 32));
  return allowed;
}

}  // namespace braid
