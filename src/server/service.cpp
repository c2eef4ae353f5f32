// SPDX-License-Identifier: Apache-2.0
#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/memory_info.h"
#include "engine/memory_plan.h"
#include "server/api_error.h"

namespace braid::server {
namespace {

// Which model it is, for files of its state: names, sizes and times of what it is read from.
std::string identity_of(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && (entry.path().extension() == ".safetensors" || entry.path().extension() == ".json"))
      files.push_back(fmt::format("{} {} {}", entry.path().filename().string(), entry.file_size(),
                                  entry.last_write_time().time_since_epoch().count()));
  std::ranges::sort(files);
  std::string all;
  for (const std::string& file : files) all += file + "\n";
  return all;
}

EngineOptions engine_options(const ServeOptions& options, const OpenModel& model) {
  const std::span<const StateNeed> needs = model.spec.needs;
  const auto share = static_cast<int64_t>(static_cast<double>(model.free_memory) * options.memory_share);
  MemoryRequest memory{.context = model.context, .sequences = options.parallel, .kept = kept_slots(needs, share)};
  if (state_bytes(needs, plan_state(needs, memory)) > share) memory.bytes = share;
  const int64_t cache = options.cache_bytes.value_or(
      default_cache_bytes(needs, model.context, std::min(model.free_memory, memory_info().available)));
  return {.context = model.context,
          .steps = {.step_tokens = options.step_tokens, .sequences = options.parallel},
          .state = plan_state(needs, memory),
          .allowed = allowed_tokens(model),
          .end_tokens = model.generation.end_tokens,
          .cache_bytes = cache,
          .deterministic = options.open.device.deterministic,
          .cache_folder = options.cache_folder,
          .identity = identity_of(model.folder)};
}

ServeOptions with_names(ServeOptions options, const OpenModel& model) {
  if (options.names.empty()) options.names = {std::filesystem::canonical(model.folder).filename().string()};
  return options;
}

}  // namespace

Service::Service(const ServeOptions& given)
    : options(given),
      model(open_model(given.open)),
      loop(model.loaded(), engine_options(given, model), static_cast<size_t>(given.parallel + given.queue)) {
  options = with_names(given, model);
  if (model.chat_template) dialect = dialect_of_template(model.chat_template->source());
  dialect = with_options(dialect, given.reasoning, given.tool_form);
  if (model.tokenizer)
    grammars = std::make_unique<GrammarCache>(TokenTrie::of(*model.tokenizer, model.generation.end_tokens));
  if (model.tokenizer && dialect.reasoning)
    reasoning_tokens = std::make_shared<const ReasoningTokens>(*model.tokenizer, dialect, model.generation.end_tokens);
}

void Service::check_model(std::string_view name) const {
  if (std::ranges::find(options.names, name) == options.names.end())
    throw ApiError(Fault::NotFound, fmt::format("the model '{}' is not served here; /v1/models lists what is", name),
                   "model", "model_not_found");
}

std::string Service::read_model(Fields& fields) const {
  auto name = fields.text("model");
  if (!name) fields.refuse("model", "is missing");
  check_model(*name);
  return std::move(*name);
}

Sampling Service::sampling() const { return with_overrides(model.generation.sampling, options.sampling); }

}  // namespace braid::server
