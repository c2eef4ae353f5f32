// braid verify: compares the engine with stored reference outputs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "api/model.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "cli/command.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/layerwise.h"
#include "engine/scorer.h"

namespace braid::cli {
namespace {

struct Options {
  OpenOptions open;
  std::string expected;
  int64_t chunk = 0;
  bool layerwise = false, json = false;
};

struct Comparison {
  std::string name;
  double error = 0, bound = 0;
  std::string note;
  bool ok() const { return error <= bound; }  // false for NaN
};

// Rounding a product's operand to bf16 moves it by at most 2^-9. A branch rounds about eight times between its input
// and what it writes (inputs of its products, keys, values, probabilities), and each moves its norm by at most that
// share.
constexpr double kFastBranchBound = 8 * 0x1p-9;
// The same count of roundings to f32, times the few hundred additions between them.
constexpr double kExactBranchBound = 8 * 512 * 0x1p-24;

std::vector<int32_t> ints(const StoredTensor& tensor) {
  if (tensor.dtype != DType::I32)
    fail("{}: tensor {}: expected i32, found {}", tensor.file, tensor.name, name_of(tensor.dtype));
  std::vector<int32_t> out(static_cast<size_t>(tensor.elements()));
  std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

// Rows of a stored f32 matrix.
class StoredRows {
 public:
  explicit StoredRows(const StoredTensor& tensor) : width_(static_cast<size_t>(tensor.shape.back())) {
    if (tensor.dtype != DType::F32 || tensor.shape.size() != 2)
      fail("{}: tensor {}: expected a matrix of f32", tensor.file, tensor.name);
    values_.resize(static_cast<size_t>(tensor.elements()));
    std::memcpy(values_.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  int64_t count() const { return static_cast<int64_t>(values_.size() / width_); }
  std::span<const float> operator[](int64_t row) const {
    return std::span(values_).subspan(static_cast<size_t>(row) * width_, width_);
  }

 private:
  size_t width_;
  std::vector<float> values_;
};

// Infinite for rows that hold a value that is not finite, so that the largest of several errors keeps it.
double relative_error(std::span<const float> ours, std::span<const float> expected) {
  if (ours.size() != expected.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  if (!std::isfinite(difference)) return INFINITY;
  return std::sqrt(norm == 0 ? difference : difference / norm);
}

class Case {
 public:
  Case(const Options& options, OpenModel& model, const Checkpoint& expected)
      : options_(options), model_(model), expected_(expected), bound_(bound()) {}

  std::vector<Comparison> run() {
    for (const char* prompt : {"a", "b"})
      if (expected_.find(std::string(prompt) + ".ids") != nullptr) score(prompt);
    if (expected_.find("a.greedy") != nullptr) greedy();
    if (model_.spec.drafter && expected_.find("mtp.logits.1") != nullptr) drafts();
    if (comparisons_.empty()) fail("{}: holds no prompt (a.ids or b.ids)", expected_.place());
    return std::move(comparisons_);
  }

 private:
  double metadata(const char* key) const {
    const auto found = expected_.metadata().find(key);
    return found == expected_.metadata().end() ? 0.0 : std::strtod(found->second.c_str(), nullptr);
  }
  // The bounds that come with the reference cases: a multiple of the distance between the reference and itself in f64,
  // or in bf16.
  double bound() const {
    if (options_.open.device.device == "reference") return std::max(2e-5, 4 * metadata("noise"));
    if (!options_.open.device.fast) return std::max(1e-4, 20 * metadata("noise"));
    return std::max(3e-2, 1.5 * metadata("noise_bf16"));
  }
  Scorer scorer(int64_t tokens, int drafts) const {
    const int64_t chunk = options_.chunk > 0 ? std::min(options_.chunk, tokens) : tokens;
    return Scorer(model_.loaded(),
                  {.context = tokens, .chunk = chunk, .step_tokens = chunk, .drafts = drafts, .hidden = true});
  }
  void add(std::string name, double error, std::string note = "") {
    comparisons_.push_back({std::move(name), error, bound_, std::move(note)});
  }

  void score(const std::string& prompt) {
    const std::vector<int32_t> ids = ints(expected_.at(prompt + ".ids"));
    const bool by_hidden = expected_.find(prompt + ".logits") == nullptr;
    const StoredRows rows(expected_.at(prompt + (by_hidden ? ".hidden" : ".logits")));
    std::vector<int64_t> positions;
    if (const StoredTensor* listed = expected_.find(prompt + ".positions")) {
      const std::vector<int32_t> given = ints(*listed);
      positions.assign(given.begin(), given.end());
    } else {
      for (int64_t i = 0; i < std::ssize(ids); ++i) positions.push_back(i);
    }
    std::vector<std::optional<StoredRows>> layers;
    std::vector<double> layer_errors;
    if (prompt == "a") load_layers(layers, layer_errors);
    double worst = 0;
    int64_t row = 0;
    const ScoreDocument document{.tokens = ids, .positions = positions};
    const bool has_final = !layers.empty() && layers.back();
    scorer(std::ssize(ids), 0)
        .run(
            std::span(&document, 1),
            [&](const ScoredRow& scored) {
              worst = std::max(worst, relative_error(by_hidden ? scored.hidden : scored.logits, rows[row++]));
              if (has_final)
                layer_errors.back() =
                    std::max(layer_errors.back(), relative_error(scored.hidden, (*layers.back())[scored.position]));
            },
            [&](const TappedRows& tapped) {
              const auto layer = static_cast<size_t>(tapped.layer);
              if (layer + 1 >= layers.size() || !layers[layer]) return;  // the last one is stored after the final norm
              const size_t width = tapped.values.size() / static_cast<size_t>(tapped.count);
              for (int64_t i = 0; i < tapped.count; ++i)
                layer_errors[layer] = std::max(
                    layer_errors[layer], relative_error(tapped.values.subspan(static_cast<size_t>(i) * width, width),
                                                        (*layers[layer])[tapped.position + i]));
            });
    for (size_t layer = 0; layer < layers.size(); ++layer)
      if (layers[layer]) add(fmt::format("a.layer.{}", layer), layer_errors[layer]);
    if (row != rows.count()) fail("{}: {} rows of logits for {} positions", expected_.place(), rows.count(), row);
    add(prompt + (by_hidden ? ".hidden" : ".logits"), worst);
    if (prompt == "a") error_seen_ = worst;
  }

  void load_layers(std::vector<std::optional<StoredRows>>& layers, std::vector<double>& errors) const {
    for (int layer = 0; layer <= model_.spec.layers; ++layer) {
      const StoredTensor* stored = expected_.find(fmt::format("a.layer.{}", layer));
      const bool plain = stored != nullptr && stored->shape.size() == 2 && stored->shape[1] == model_.spec.width;
      layers.push_back(plain ? std::optional<StoredRows>(*stored) : std::nullopt);
    }
    errors.assign(layers.size(), 0);
  }

  // Greedy tokens must match where the margin is above what our logits may be off by.
  void greedy() {
    const std::vector<int32_t> prompt = ints(expected_.at("a.ids")), expected = ints(expected_.at("a.greedy"));
    const StoredTensor& stored = expected_.at("a.margin");
    std::vector<float> margins(static_cast<size_t>(stored.elements()));
    std::memcpy(margins.data(), stored.bytes.data(), stored.bytes.size());
    std::vector<int32_t> found;
    const int64_t context = std::ssize(prompt) + std::ssize(expected);
    const int64_t chunk = options_.chunk > 0 ? options_.chunk : context;
    Engine engine(
        model_.loaded(),
        {.context = context, .steps = {.step_tokens = std::max<int64_t>(chunk, 1), .chunk = chunk, .sequences = 1}});
    engine.submit({.tokens = prompt,
                   .sampling = {.temperature = 0},
                   .max_tokens = std::ssize(expected),
                   .ignore_end = true,
                   .on_event = [&](const Event& event) {
                     if (event.finish && *event.finish == FinishReason::Error) fail("{}", event.error);
                     if (event.token >= 0) found.push_back(event.token);
                     return Verdict::Continue;
                   }});
    engine.run_until_idle();
    size_t equal = 0;
    while (equal < expected.size() && equal < found.size() && found[equal] == expected[equal]) ++equal;
    // After a token that differs for want of margin the continuations are different texts.
    const double margin = equal < expected.size() ? margins[equal] : 0.0;
    const double slack = equal < expected.size() ? error_seen_ * largest_logit_norm() : 0.0;
    comparisons_.push_back({.name = "a.greedy",
                            .error = margin,
                            .bound = slack,
                            .note = fmt::format("{} of {} tokens equal", equal, expected.size())});
  }
  // The largest 2-norm of a stored row of logits: a relative error times it bounds what one logit is off by.
  double largest_logit_norm() const {
    const StoredRows rows(expected_.at("a.logits"));
    double largest = 0;
    for (int64_t row = 0; row < rows.count(); ++row) {
      double sum = 0;
      for (const float value : rows[row]) sum += static_cast<double>(value) * value;
      largest = std::max(largest, std::sqrt(sum));
    }
    return 2 * largest;  // a margin is a difference of two logits
  }

  void drafts() {
    const std::vector<int32_t> ids = ints(expected_.at("a.ids"));
    const int depths = expected_.find("mtp.logits.2") != nullptr ? 2 : 1;
    std::vector<StoredRows> rows;
    std::vector<double> worst(static_cast<size_t>(depths), 0);
    for (int depth = 1; depth <= depths; ++depth) rows.emplace_back(expected_.at(fmt::format("mtp.logits.{}", depth)));
    scorer(std::ssize(ids), depths).drafts(ids, [&](const DraftedRow& row) {
      const auto depth = static_cast<size_t>(row.depth - 1);
      worst[depth] = std::max(worst[depth], relative_error(row.logits, rows[depth][row.position]));
    });
    for (int depth = 1; depth <= depths; ++depth)
      add(fmt::format("mtp.logits.{}", depth), worst[static_cast<size_t>(depth - 1)]);
  }

  const Options& options_;
  OpenModel& model_;
  const Checkpoint& expected_;
  double bound_, error_seen_ = 0;
  std::vector<Comparison> comparisons_;
};

// Each branch on the device that was asked for, given the reference executor's input and state.
std::vector<Comparison> layerwise(const Options& options, const OpenModel& model, const Checkpoint& expected) {
  OpenOptions reference_options = options.open;
  reference_options.device = {.device = "reference"};
  const OpenModel reference = open_model(reference_options);
  const double bound = options.open.device.fast ? kFastBranchBound : kExactBranchBound;
  std::vector<Comparison> out;
  for (const char* prompt : {"a", "b"}) {
    const StoredTensor* stored = expected.find(std::string(prompt) + ".ids");
    if (stored == nullptr) continue;
    for (const BranchError& error :
         compare_branches(reference.loaded(), model.loaded(), ints(*stored), {.chunk = options.chunk})) {
      const std::string at = fmt::format("{} layer {} {}", prompt, error.layer, error.part);
      std::string note = fmt::format("worst row {:.1e}", error.worst_row);
      if (error.near_ties > 0) note += fmt::format(", {} of {} rows near a tie left out", error.near_ties, error.rows);
      out.push_back({at + ": output", error.output, bound, note});
      if (error.state > 0) out.push_back({at + ": state", error.state, bound, ""});
      // Rows that are left out prove nothing; too many of them would hide a fault.
      constexpr double kMostNearTies = 0.02;
      const auto share = static_cast<double>(error.near_ties) / static_cast<double>(error.rows);
      if (error.near_ties > 1) out.push_back({at + ": rows left out", share, kMostNearTies, ""});
    }
  }
  return out;
}

void print(const std::vector<Comparison>& comparisons, bool json) {
  Json out = Json::array();
  size_t width = 0;
  for (const Comparison& c : comparisons) width = std::max(width, c.name.size());
  for (const Comparison& c : comparisons) {
    if (json)
      out.push_back({{"name", c.name}, {"error", c.error}, {"bound", c.bound}, {"ok", c.ok()}, {"note", c.note}});
    else
      fmt::print("{:<{}}  {:>9.2e}  <= {:>9.2e}  {}{}{}\n", c.name, width, c.error, c.bound, c.ok() ? "ok" : "FAIL",
                 c.note.empty() ? "" : "  ", c.note);
  }
  if (json) fmt::print("{}\n", out.dump(1));
}

void verify(const Options& options) {
  catch_interrupts(Again::Ends);
  OpenModel model = open_model(options.open);
  const Checkpoint expected = Checkpoint::open_file(options.expected.empty() ? model.folder / "expected.safetensors"
                                                                             : std::filesystem::path(options.expected));
  const std::vector<Comparison> comparisons =
      options.layerwise ? layerwise(options, model, expected) : Case(options, model, expected).run();
  print(comparisons, options.json);
  const auto failed = std::ranges::count_if(comparisons, [](const Comparison& c) { return !c.ok(); });
  if (failed > 0) fail("{} of {} comparisons failed", failed, comparisons.size());
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->open.device.fast = false;
  CLI::App* command = app.add_subcommand("verify", "compare with stored reference outputs");
  add_model_options(*command, options->open, "room that memory must hold beside the weights");
  add_loading_options(*command, options->open);
  command->get_option("MODEL")->description("a case: a checkpoint folder with expected.safetensors");
  command->add_option("--expected", options->expected, "file with the expected outputs, when it lies elsewhere");
  command->add_option("--chunk", options->chunk, "compute prompts in chunks of this many tokens; 0: whole")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_flag("--layerwise", options->layerwise,
                    "give each branch the reference's input; compare its output and state");
  add_json_option(*command, options->json);
  command->callback([options] { verify(*options); });
}

}  // namespace braid::cli
