// SPDX-License-Identifier: Apache-2.0
#include "cli/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/rng.h"
#include "engine/sampler.h"
#include "engine/step_runner.h"
#include "ops/wrappers/counting.h"
#include "ops/wrappers/timing.h"

namespace braid::cli {
namespace {

struct CellShape {
  int64_t batch = 1, context = 0, chunk = 1;  // of decode: `context` tokens before the step
  bool decode = true;
};

// Sequences of one cell, and steps over them.
class Cell {
 public:
  Cell(const OpenModel& model, Executor& executor, const CellShape& shape)
      : shape_(shape),
        pool_(executor, model.spec.needs,
              {.pages = shape.batch * StatePool::pages_for(room()), .slots = static_cast<int32_t>(shape.batch)}),
        runner_({executor, model.spec, model.weights}, pool_,
                {.limits = {.tokens = shape.decode ? shape.batch : shape.chunk,
                            .sequences = shape.batch,
                            .heads = shape.batch,
                            .context = room()}}),
        sampler_(executor, model.spec.vocabulary, static_cast<int32_t>(shape.batch), allowed_tokens(model)) {
    for (int64_t i = 0; i < shape.batch; ++i) {
      SequenceState& state = states_.emplace_back(pool_.acquire());
      CHECK(pool_.grow(state, room()));
      if (shape.decode) pool_.commit(state, shape.context);
      next_.push_back(
          static_cast<int32_t>(uniform(1, static_cast<uint64_t>(i), 0) * static_cast<float>(model.spec.vocabulary)));
    }
    for (int64_t i = 0; i < (shape.decode ? 0 : shape.context); ++i)
      prompt_.push_back(
          static_cast<int32_t>(uniform(2, static_cast<uint64_t>(i), 0) * static_cast<float>(model.spec.vocabulary)));
  }

  // A token for each sequence. The caches do not grow: each step writes the same place, so that all cost the same.
  void decode() {
    std::vector<SequenceRows> rows;
    for (size_t i = 0; i < states_.size(); ++i)
      rows.push_back({.state = &states_[i], .tokens = std::span(&next_[i], 1), .heads = {0}});
    run(rows);
  }
  void prefill() {
    SequenceState& state = states_.front();
    pool_.release(state);
    state = pool_.acquire();
    CHECK(pool_.grow(state, room()));
    for (int64_t at = 0; at < shape_.context; at += shape_.chunk) {
      const int64_t count = std::min(shape_.chunk, shape_.context - at);
      SequenceRows row{.state = &state,
                       .tokens = std::span(prompt_).subspan(static_cast<size_t>(at), static_cast<size_t>(count))};
      if (at + count == shape_.context) row.heads = {count - 1};
      run({&row, 1});
      pool_.commit(state, at + count);
    }
  }
  std::string hash() const {
    Hash hash;
    hash.add(std::as_bytes(std::span(next_)));
    return hash.text();
  }

 private:
  static constexpr int64_t kRoomForSteps = 1;
  int64_t room() const { return shape_.context + kRoomForSteps; }

  void run(std::span<const SequenceRows> rows) {
    runner_.run(rows, [&](const Pass& pass) {
      if (pass.built.heads.empty()) return;
      const std::vector<DrawRow> greedy(pass.built.heads.size(), DrawRow{.how = {.temperature = 0}});
      const std::vector<Drawn> drawn = sampler_.draw(pass.outputs.logits, greedy);
      for (size_t i = 0; i < drawn.size(); ++i) {
        if (drawn[i].token < 0) fail("{}", kNothingToDraw);
        next_[pass.built.heads[i].index] = drawn[i].token;
      }
    });
  }

  CellShape shape_;
  StatePool pool_;
  StepRunner runner_;
  Sampler sampler_;
  std::vector<SequenceState> states_;
  std::vector<int32_t> next_, prompt_;
};

double seconds_of(Executor& executor, const std::function<void()>& work) {
  executor.wait();
  const auto start = std::chrono::steady_clock::now();
  work();
  executor.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Json profile(const OpenModel& model, const CellShape& shape) {
  TimingExecutor timing(*model.executor);
  Cell cell(model, timing, shape);
  const auto once = [&] { shape.decode ? cell.decode() : cell.prefill(); };
  once();
  timing.clear();
  once();
  std::vector<std::pair<std::string, TimingExecutor::Entry>> entries(timing.totals().begin(), timing.totals().end());
  std::ranges::sort(entries, {}, [](const auto& entry) { return -entry.second.seconds; });
  Json rows = Json::array();
  for (const auto& [name, entry] : entries)
    rows.push_back({{"op", name}, {"ops", entry.ops}, {"ms", entry.seconds * 1e3}});
  return rows;
}

// Times one cell; `limits` are measured by the first one that fits, over its own bytes.
Json run_cell(const OpenModel& model, const CellShape& shape, const GridOptions& options, Limits& limits) {
  Json out = {{"kind", shape.decode ? "decode" : "prefill"}, {"batch", shape.batch}, {"context", shape.context}};
  try {
    CountingExecutor counter(*model.executor);
    Cell cell(model, counter, shape);
    const auto once = [&] { shape.decode ? cell.decode() : cell.prefill(); };
    once();
    counter.clear();
    once();
    Cost cost;
    for (const auto& [name, entry] : counter.totals()) cost += entry.cost;
    if (limits.copy_bytes_per_second == 0)
      limits = model.executor->measure_limits(static_cast<size_t>(std::max(cost.bytes, 1.0)));
    once();
    std::vector<double> times;
    for (int i = 0; i < (shape.decode ? options.steps : 3); ++i) times.push_back(seconds_of(*model.executor, once));
    const double seconds = median(times);
    const auto tokens = static_cast<double>(shape.decode ? shape.batch : shape.context);
    const auto share = [&](double amount, double limit) { return limit > 0 ? amount / seconds / limit : 0.0; };
    const double of_bytes = share(cost.bytes, limits.copy_bytes_per_second);
    const double of_flops = share(cost.flops, limits.flops_per_second);
    out.update({{"fits", true},
                {"tokens_per_s", tokens / seconds},
                {"ms", seconds * 1e3},
                {"gb", cost.bytes / 1e9},
                {"gflop", cost.flops / 1e9},
                {"bound", of_bytes >= of_flops ? "bytes" : "operations"},
                {"share", std::max(of_bytes, of_flops)},
                {"hash", cell.hash()}});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Resource) throw;
    out.update({{"fits", false}, {"why", error.message()}});
    return out;
  }
  if (options.profile) out["profile"] = profile(model, shape);
  return out;
}

}  // namespace

Json measure_grid(const OpenModel& model, const GridOptions& options, const OnCell& on_cell) {
  std::vector<CellShape> shapes;
  for (const int64_t context : options.contexts)
    for (const int64_t batch : options.batches) shapes.push_back({.batch = batch, .context = context});
  for (const int64_t prompt : options.prompts)
    shapes.push_back({.context = prompt, .chunk = std::min(prompt, options.chunk), .decode = false});
  Progress progress("bench", shapes.size(), Progress::Unit::Items);
  Limits limits;
  Json result = {{"limits", Json()}, {"cells", Json::array()}};
  for (const CellShape& shape : shapes) {
    progress.begin(shape.decode ? fmt::format("decode {} at {}", shape.batch, shape.context)
                                : fmt::format("prefill {}", shape.context));
    const Json& cell = result["cells"].emplace_back(run_cell(model, shape, options, limits));
    result["limits"] = {{"copy_gb_per_s", limits.copy_bytes_per_second / 1e9},
                        {"gflop_per_s", limits.flops_per_second / 1e9}};
    progress.wipe();
    on_cell(cell, result["limits"]);
    progress.advance(1);
  }
  return result;
}

void GridPrinter::print(const Json& cell, const Json& limits) {
  if (!std::exchange(begun_, true)) {
    fmt::print("limits: copy {:.1f} GB/s, {:.0f} GFLOP/s\n", limits["copy_gb_per_s"].get<double>(),
               limits["gflop_per_s"].get<double>());
    fmt::print("{:<8} {:>6} {:>8} {:>12} {:>10} {:>10} {:>12} {:>7}\n", "kind", "batch", "context", "tokens/s", "ms",
               "GB", "GFLOP", "share");
  }
  fmt::print("{:<8} {:>6} {:>8} ", cell["kind"].get<std::string>(), cell["batch"].get<int64_t>(),
             cell["context"].get<int64_t>());
  if (cell["fits"].get<bool>())
    fmt::print("{:>12.1f} {:>10.3f} {:>10.3f} {:>12.1f} {:>6.1f}% of {}\n", cell["tokens_per_s"].get<double>(),
               cell["ms"].get<double>(), cell["gb"].get<double>(), cell["gflop"].get<double>(),
               100 * cell["share"].get<double>(), cell["bound"].get<std::string>());
  else
    fmt::print("does not fit: {}\n", cell["why"].get<std::string>());
  for (const Json& row : cell.value("profile", Json::array()))
    fmt::print("    {:<24} {:>6} {:>10.3f} ms\n", row["op"].get<std::string>(), row["ops"].get<int64_t>(),
               row["ms"].get<double>());
  std::fflush(stdout);
}

}  // namespace braid::cli
