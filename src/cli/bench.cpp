// braid bench: speed at growing context with the share of the machine's limit, or of a server; or the difference of
// two.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/output_file.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/grid.h"
#include "cli/load.h"
#include "cli/measure.h"
#include "cli/options.h"
#include "cli/plot.h"

namespace braid::cli {
namespace {

struct Options {
  OpenOptions open;
  MeasureOptions measure;
  std::string other, out, svg;
  std::string shape, format = "bf16";
  int64_t layers = 0;
  bool random_weights = false;
  GridOptions grid;
  LoadOptions load;
  bool json = false;
};

// --out and --svg, opened before the work so that a place that cannot be written is known at once.
class Outputs {
 public:
  explicit Outputs(const Options& options) {
    if (!options.out.empty()) json_.emplace(options.out);
    if (!options.svg.empty()) svg_.emplace(options.svg);
  }
  void finish(const Json& result, const std::string& plot) {
    write(json_, result.dump(1) + "\n");
    write(svg_, plot);
  }

 private:
  static void write(std::optional<OutputFile>& file, const std::string& text) {
    if (!file) return;
    file->write_at(0, std::as_bytes(std::span(text)));
    file->finish();
  }
  std::optional<OutputFile> json_, svg_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

// What was measured on what: results with different values here are not comparable. The format is that of most bytes.
Json subject(const Options& options, const OpenModel& model) {
  std::map<std::string, int64_t> bytes;
  for (const Weight& weight : model.weights.matrices()) bytes[name_of(weight.format)] += weight.bytes();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return {{"family", model.spec.family},
          {"width", model.spec.width},
          {"layers", model.spec.layers},
          {"format", most->first},
          {"device", std::string(model.executor->name())},
          {"threads", options.open.device.threads > 0 ? options.open.device.threads
                                                      : static_cast<int>(std::thread::hardware_concurrency())},
          {"activations", options.open.device.fast ? "fast" : "f32"}};
}

void print(const Json& result) {
  const Json& limits = result["limits"];
  fmt::print("{} on {}, {} threads, {} activations\n", result["model"].get<std::string>(),
             result["subject"]["device"].get<std::string>(), result["subject"]["threads"].get<int>(),
             result["subject"]["activations"].get<std::string>());
  fmt::print("limits: copy {:.1f} GB/s over {:.1f} MB, {:.0f} GFLOP/s\n", limits["copy_gb_per_s"].get<double>(),
             result["step_bytes"].get<double>() / 1e6, limits["gflop_per_s"].get<double>());
  fmt::print("{:<8} {:>7} {:>9} {:>13} {:>9} {:>10} {:>7}\n", "kind", "tokens", "context", "tokens/s", "GB/s",
             "GFLOP/s", "share");
  for (const Json& row : result["rows"])
    fmt::print("{:<8} {:>7} {:>9} {:>13.1f} {:>9.2f} {:>10.2f} {:>6.1f}% of {}\n", row["kind"].get<std::string>(),
               row["tokens"].get<int64_t>(), row["context"].get<int64_t>(), row["tokens_per_s"].get<double>(),
               row["gb_per_s"].get<double>(), row["gflop_per_s"].get<double>(), 100 * row["share"].get<double>(),
               row["bound"].get<std::string>());
  fmt::print("hash {}\n", result["hash"].get<std::string>());
}

std::string plot(const Json& result) {
  Plot out{.title = fmt::format("{}: decode speed", result["model"].get<std::string>()),
           .x_name = "context, tokens",
           .y_name = "tokens per second"};
  Plot::Line line{.name = result["subject"]["device"].get<std::string>()};
  for (const Json& row : result["rows"])
    if (row["kind"] == "decode")
      line.points.emplace_back(row["context"].get<double>(), row["tokens_per_s"].get<double>());
  std::sort(line.points.begin(), line.points.end());
  out.lines.push_back(std::move(line));
  return to_svg(out);
}

void compare(const std::string& before_file, const std::string& after_file) {
  const Json before = read_json(before_file), after = read_json(after_file);
  if (before.contains("load") && after.contains("load")) return compare_loads(before, after);
  for (const Json* result : {&before, &after})
    if (!result->contains("subject") || !result->contains("rows"))
      fail("{}: not a result of braid bench", result == &before ? before_file : after_file);
  for (const auto& [key, value] : before["subject"].items())
    if (after["subject"].value(key, Json()) != value)
      fail("{} and {} differ in {}: {} and {}", before_file, after_file, key, value.dump(),
           after["subject"].value(key, Json()).dump());
  fmt::print("{:<8} {:>7} {:>9} {:>13} {:>13} {:>8}\n", "kind", "tokens", "context", "before", "after", "ratio");
  for (const Json& old : before["rows"])
    for (const Json& now : after["rows"])
      if (old["kind"] == now["kind"] && old["tokens"] == now["tokens"] && old["context"] == now["context"])
        fmt::print("{:<8} {:>7} {:>9} {:>13.1f} {:>13.1f} {:>8.3f}\n", old["kind"].get<std::string>(),
                   old["tokens"].get<int64_t>(), old["context"].get<int64_t>(), old["tokens_per_s"].get<double>(),
                   now["tokens_per_s"].get<double>(),
                   now["tokens_per_s"].get<double>() / old["tokens_per_s"].get<double>());
  fmt::print("{}\n", before["hash"] == after["hash"] ? "the same greedy tokens" : "greedy tokens changed");
}

// `name` as a path, else the folder of that name beside the program: in its source tree or where it is installed.
std::filesystem::path find_shape(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path places[] = {name, fs::path("bench/shapes") / name, program.parent_path() / "bench/shapes" / name,
                             program.parent_path() / "share/braid/shapes" / name};
  for (const fs::path& place : places)
    if (fs::exists(place / "config.json", ignored)) return place;
  fail("--shape {}: neither a folder with a config.json nor the name of one under bench/shapes", name);
}

// The grid of a shape with random weights, or of a model.
void bench_grid(Options options) {
  if (!options.shape.empty()) {
    if (!options.open.model.empty()) fail(ErrorKind::Usage, "--shape takes the place of MODEL");
    options.open.model = find_shape(options.shape).string();
    options.random_weights = true;
  }
  if (options.random_weights) options.open.random = {.format = options.format, .layers = options.layers};
  options.open.context = 1;  // each cell takes the state it needs
  Outputs outputs(options);
  catch_interrupts(Again::Ends);
  const OpenModel model = open_model(options.open);
  if (!options.measure.contexts.empty()) options.grid.contexts = options.measure.contexts;
  Json result = {{"braid", std::string(version())},
                 {"commit", std::string(commit())},
                 {"date", today()},
                 {"model", model.folder.filename().string()},
                 {"subject", subject(options, model)}};
  result["subject"]["layers"] = model.spec.layers;
  GridPrinter printer;
  result.update(measure_grid(model, options.grid, [&](const Json& cell, const Json& limits) {
    if (!options.json) printer.print(cell, limits);
  }));
  if (options.json) fmt::print("{}\n", result.dump(1));
  outputs.finish(result, "");
}

void bench_server(const Options& options) {
  if (!options.open.model.empty()) fail(ErrorKind::Usage, "--serve takes the place of MODEL");
  Outputs outputs(options);
  catch_interrupts(Again::Ends);
  Json result = {{"braid", std::string(version())}, {"commit", std::string(commit())}, {"date", today()}};
  result.update(measure_load(options.load));
  if (options.json)
    fmt::print("{}\n", result.dump(1));
  else
    print_load(result);
  outputs.finish(result, plot_load(result));
}

void bench(const Options& options) {
  if (!options.load.url.empty()) return bench_server(options);
  if (!options.shape.empty() || options.random_weights) return bench_grid(options);
  if (options.open.model.empty()) fail(ErrorKind::Usage, "MODEL, --shape or --serve is required");
  if (!options.other.empty()) return compare(options.open.model, options.other);
  Outputs outputs(options);
  catch_interrupts(Again::Ends);
  const OpenModel model = open_model(options.open);
  Json result = {{"braid", std::string(version())},
                 {"commit", std::string(commit())},
                 {"date", today()},
                 {"model", model.folder.filename().string()},
                 {"subject", subject(options, model)}};
  result.update(to_json(measure(model, options.measure)));
  if (options.json)
    fmt::print("{}\n", result.dump(1));
  else
    print(result);
  outputs.finish(result, plot(result));
}

// What --serve needs, and what it does without.
void check_server_options(const CLI::App& command) {
  constexpr std::array<std::string_view, 9> kOfServers{"--model",         "--api-key",       "--streams",
                                                       "--rate",          "--requests",      "--seconds",
                                                       "--prompt-tokens", "--answer-tokens", "--seed"};
  constexpr std::array<std::string_view, 4> kOfBoth{"--serve", "--out", "--svg", "--json"};
  const bool serve = command.count("--serve") > 0;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0 || !option->nonpositional()) continue;
    const std::string name = option->get_name();
    const bool of_servers = std::ranges::find(kOfServers, name) != kOfServers.end();
    if (!serve && of_servers) fail(ErrorKind::Usage, "{} needs --serve", name);
    if (serve && !of_servers && std::ranges::find(kOfBoth, name) == kOfBoth.end())
      fail(ErrorKind::Usage, "{} excludes --serve", name);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "speed at growing context, with the share of the hardware's limit");
  add_model_options(*command, options->open, "room for what is read and decoded");
  command->get_option("MODEL")->required(false);
  add_loading_options(*command, options->open);
  command->add_option("OTHER", options->other, "compare two results: braid bench BEFORE.json AFTER.json");
  command->add_option("--prefill", options->measure.prefill, "tokens read at once")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--decode", options->measure.decode, "tokens decoded")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--contexts", options->measure.contexts, "decode at these contexts too")
      ->delimiter(',')
      ->type_name("INT[,INT]")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->allow_extra_args(false);
  command->add_option("--repeats", options->measure.repeats, "medians of so many runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--out", options->out, "write the result as JSON to this file");
  command->add_option("--svg", options->svg, "plot decode speed over context, or a server's times, to this file");
  command->add_option("--shape", options->shape,
                      "random weights of a published shape: a folder with a config.json, or a name under bench/shapes");
  command->add_flag("--random-weights", options->random_weights, "random weights in place of MODEL's");
  command->add_option("--format", options->format, "of random weights: bf16, f32, fp8_block or nvfp4")
      ->capture_default_str();
  command->add_option("--layers", options->layers, "random weights of the first so many layers; 0: all")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  const auto list = [&](const char* flag, std::vector<int64_t>& values, const char* text) {
    command->add_option(flag, values, text)
        ->delimiter(',')
        ->type_name("INT[,INT]")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->allow_extra_args(false)
        ->capture_default_str();
  };
  list("--batches", options->grid.batches, "decode so many sequences at once, with random weights");
  list("--prompts", options->grid.prompts, "read prompts of these lengths, with random weights");
  command->add_flag("--profile", options->grid.profile, "time by kind of op, with random weights");
  add_json_option(*command, options->json);
  add_load_options(*command, options->load);
  exclude(*command, {{"--shape", {"--svg", "--prefill", "--decode", "--repeats"}},
                     {"--random-weights", {"--svg", "--prefill", "--decode", "--repeats"}}});
  command->callback([options, command] {
    for (const CLI::Option* option : command->get_options())
      if (!options->other.empty() && option->count() > 0 && option->nonpositional())
        fail(ErrorKind::Usage, "{} excludes OTHER: two results are compared as they are", option->get_name());
    for (const char* flag : {"--format", "--layers", "--batches", "--prompts", "--profile"})
      if (command->count(flag) > 0 && options->shape.empty() && !options->random_weights)
        fail(ErrorKind::Usage, "{} needs --shape or --random-weights", flag);
    check_server_options(*command);
    bench(*options);
  });
}

}  // namespace braid::cli
