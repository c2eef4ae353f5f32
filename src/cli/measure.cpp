// SPDX-License-Identifier: Apache-2.0
#include "cli/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/rng.h"
#include "engine/sampler.h"
#include "engine/step_runner.h"
#include "engine/transfer.h"
#include "ops/wrappers/counting.h"

namespace braid::cli {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One sequence that is filled and then decoded, greedily.
class Subject {
 public:
  Subject(const OpenModel& model, int64_t context, int64_t chunk)
      : model_(model),
        counter_(*model.executor),
        pool_(counter_, model.spec.needs, {.pages = StatePool::pages_for(context), .slots = 1}),
        runner_({counter_, model.spec, model.weights}, pool_,
                {.limits = {.tokens = chunk, .sequences = 1, .heads = 1, .context = context}}),
        sampler_(counter_, model.spec.vocabulary, 1, allowed_tokens(model)),
        chunk_(chunk) {}

  void restart() {
    pool_.release(sequence_);
    sequence_ = pool_.acquire();
    hash_ = {};
  }
  // Reads `count` more tokens, drawn by a fixed seed.
  void prefill(int64_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    const int64_t known = model_.tokenizer ? model_.tokenizer->size() : model_.spec.vocabulary;
    for (int64_t i = 0; i < count; ++i)
      tokens[static_cast<size_t>(i)] =
          static_cast<int32_t>(uniform(1, static_cast<uint64_t>(sequence_.length + i), 0) *
                               static_cast<float>(std::min(known, model_.spec.vocabulary)));
    for (int64_t at = 0; at < count; at += chunk_)
      step(std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(chunk_, count - at))));
  }
  void decode(int64_t count) {
    for (int64_t i = 0; i < count; ++i) step(std::span(&next_, 1));
  }
  int64_t length() const { return sequence_.length; }
  std::string hash() const { return hash_.text(); }
  Cost cost_of(const std::function<void()>& work) {
    counter_.clear();
    work();
    Cost sum;
    for (const auto& [name, entry] : counter_.totals()) sum += entry.cost;
    return sum;
  }

 private:
  void step(std::span<const int32_t> tokens) {
    const int64_t length = sequence_.length + std::ssize(tokens);
    if (!pool_.grow(sequence_, length)) fail(ErrorKind::Resource, "no room for {} tokens of context", length);
    const SequenceRows rows{.state = &sequence_, .tokens = tokens, .heads = {std::ssize(tokens) - 1}};
    runner_.run(std::span(&rows, 1), [&](const Pass& pass) {
      const DrawRow greedy{.how = {.temperature = 0}};
      next_ = sampler_.draw(pass.outputs.logits, std::span(&greedy, 1)).front().token;
      if (next_ < 0) {
        check_stored_values(model_);
        fail("{}: {}", model_.folder.string(), kNothingToDraw);
      }
    });
    hash_.add(std::as_bytes(std::span(&next_, 1)));
    pool_.commit(sequence_, length);
  }

  const OpenModel& model_;
  CountingExecutor counter_;
  StatePool pool_;
  StepRunner runner_;
  Sampler sampler_;
  int64_t chunk_;
  SequenceState sequence_;
  int32_t next_ = 0;
  Hash hash_;
};

Measurement row(const char* kind, int64_t tokens, int64_t context, double seconds, const Cost& cost,
                const Measured& limits) {
  Measurement out{.kind = kind, .tokens = tokens, .context = context};
  out.tokens_per_second = static_cast<double>(tokens) / seconds;
  out.bytes_per_second = cost.bytes / seconds;
  out.flops_per_second = cost.flops / seconds;
  const double byte_share = limits.copy_bytes_per_second > 0 ? out.bytes_per_second / limits.copy_bytes_per_second : 0;
  const double flop_share = limits.flops_per_second > 0 ? out.flops_per_second / limits.flops_per_second : 0;
  out.bound = byte_share >= flop_share ? "bytes" : "operations";
  out.share = std::max(byte_share, flop_share);
  return out;
}

}  // namespace

Measured measure(const OpenModel& model, const MeasureOptions& options) {
  std::vector<int64_t> contexts = options.contexts;
  std::ranges::sort(contexts);
  const int64_t longest = std::max(options.prefill, contexts.empty() ? 0 : contexts.back()) + options.decode + 1;
  if (longest > model.context) fail(ErrorKind::Usage, "{} tokens do not fit the context of {}", longest, model.context);
  Subject subject(model, longest, std::min<int64_t>(options.prefill, 512));
  Measured out;
  subject.restart();
  const Cost prefill_cost = subject.cost_of([&] { subject.prefill(options.prefill); });  // warms up as well
  const Cost decode_cost = subject.cost_of([&] { subject.decode(1); });
  out.step_bytes = decode_cost.bytes;
  const Limits limits = model.executor->measure_limits(static_cast<size_t>(std::max(decode_cost.bytes, 1.0)));
  out.copy_bytes_per_second = limits.copy_bytes_per_second;
  out.flops_per_second = limits.flops_per_second;

  Progress progress("bench", static_cast<uint64_t>(options.repeats) + contexts.size(), Progress::Unit::Items);
  std::vector<double> prefill_seconds, decode_seconds;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    subject.restart();
    prefill_seconds.push_back(seconds_of([&] { subject.prefill(options.prefill); }));
    decode_seconds.push_back(seconds_of([&] { subject.decode(options.decode); }));
    progress.advance(1);
  }
  out.hash = subject.hash();
  const auto times = [&](const Cost& cost) {
    return Cost{.bytes = cost.bytes * static_cast<double>(options.decode),
                .flops = cost.flops * static_cast<double>(options.decode)};
  };
  out.rows.push_back(row("prefill", options.prefill, 0, median(prefill_seconds), prefill_cost, out));
  out.rows.push_back(row("decode", options.decode, options.prefill, median(decode_seconds), times(decode_cost), out));
  for (const int64_t context : contexts) {
    subject.restart();
    if (context > 0) subject.prefill(context);
    const Cost cost = subject.cost_of([&] { subject.decode(1); });
    const double seconds = seconds_of([&] { subject.decode(options.decode); });
    out.rows.push_back(row("decode", options.decode, context, seconds, times(cost), out));
    progress.advance(1);
  }
  return out;
}

Json to_json(const Measured& measured) {
  Json rows = Json::array();
  for (const Measurement& m : measured.rows)
    rows.push_back({{"kind", m.kind},
                    {"tokens", m.tokens},
                    {"context", m.context},
                    {"tokens_per_s", m.tokens_per_second},
                    {"gb_per_s", m.bytes_per_second / 1e9},
                    {"gflop_per_s", m.flops_per_second / 1e9},
                    {"bound", m.bound},
                    {"share", m.share}});
  return {{"limits",
           {{"copy_gb_per_s", measured.copy_bytes_per_second / 1e9}, {"gflop_per_s", measured.flops_per_second / 1e9}}},
          {"step_bytes", measured.step_bytes},
          {"rows", rows},
          {"hash", measured.hash}};
}

}  // namespace braid::cli
