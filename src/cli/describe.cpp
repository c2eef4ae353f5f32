// braid describe: the model as this engine sees it, from its config alone if need be.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <memory>

#include "api/model.h"
#include "cli/command.h"
#include "cli/options.h"

namespace braid::cli {
namespace {

struct Options {
  OpenOptions open;
  bool json = false, weights = false;
};

struct FormatTotal {
  int64_t parameters = 0, bytes = 0;
};

// By format; vectors are loaded as f32.
std::map<std::string, FormatTotal> totals(const WeightPlan& plan) {
  std::map<std::string, FormatTotal> out;
  for (const PlannedMatrix& matrix : plan.matrices()) {
    FormatTotal& total = out[name_of(matrix.format)];
    total.parameters += matrix.count * matrix.rows * matrix.columns;
    total.bytes += matrix.bytes();
  }
  for (const PlannedVector& vector : plan.vectors()) {
    if (!vector.constant.empty()) continue;
    FormatTotal& total = out["f32 vectors"];
    total.parameters += vector.elements();
    total.bytes += 4 * vector.elements();
  }
  return out;
}

void print_weights(const WeightPlan& plan) {
  for (const PlannedMatrix& matrix : plan.matrices())
    fmt::print("  {:<60} {:>10} {}x [{}, {}]\n", matrix.name, name_of(matrix.format), matrix.count, matrix.rows,
               matrix.columns);
  for (const PlannedVector& vector : plan.vectors())
    fmt::print("  {:<60} {:>10} {}\n", vector.name, "f32", vector.elements());
}

void describe_model(const Options& options) {
  const std::unique_ptr<Executor> executor = make_executor(options.open.device);
  const DType cache = executor->cache_type();
  const PlannedModel planned = plan_model(options.open, cache);
  const StateBytes state = state_bytes(planned.spec);
  const auto formats = totals(planned.plan);
  const int64_t context = options.open.context > 0 ? options.open.context : planned.spec.context;
  const int64_t memory = executor->available_memory(), weights = planned.plan.bytes();
  const int64_t room = memory - weights - state.per_sequence;
  const int64_t fits = room <= 0 ? 0 : state.per_token == 0 ? context : std::min(context, room / state.per_token);
  int64_t parameters = 0;
  for (const auto& [name, total] : formats) parameters += total.parameters;
  if (options.json) {
    Json json = {{"family", planned.spec.family}, {"parameters", parameters}, {"weight_bytes", weights}};
    for (const auto& [name, total] : formats)
      json["formats"][name] = {{"parameters", total.parameters}, {"bytes", total.bytes}};
    json["state_bytes_per_token"] = state.per_token;
    json["state_bytes_per_sequence"] = state.per_sequence;
    json["context"] = planned.spec.context;
    json["available_bytes"] = memory;
    json["context_that_fits"] = fits;
    json["spec"] = describe(planned.spec);
    fmt::print("{}\n", json.dump(1));
    return;
  }
  fmt::print("{}", describe(planned.spec));
  if (options.weights) print_weights(planned.plan);
  fmt::print("parameters {:.3f} M{}\n", static_cast<double>(parameters) / 1e6,
             planned.checkpoint ? "" : " (from the config alone: there are no weights here)");
  for (const auto& [name, total] : formats)
    fmt::print("  {:<12} {:>12.3f} M  {:>12.3f} MB\n", name, static_cast<double>(total.parameters) / 1e6,
               static_cast<double>(total.bytes) / 1e6);
  fmt::print("state      {} bytes a token ({} keys and values), {} bytes a sequence\n", state.per_token, name_of(cache),
             state.per_sequence);
  fmt::print("memory     {:.2f} GB of weights, {:.2f} GB available here: {}\n", static_cast<double>(weights) / 1e9,
             static_cast<double>(memory) / 1e9,
             fits == 0 ? std::string("does not fit") : fmt::format("one sequence of {} tokens fits", fits));
}

}  // namespace

void add_describe(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("describe", "print the model as this engine sees it");
  add_model_options(*command, options->open, "length that is asked about");
  command->add_flag("--weights", options->weights, "list every weight with its format and shape");
  add_json_option(*command, options->json);
  command->callback([options] { describe_model(*options); });
}

}  // namespace braid::cli
