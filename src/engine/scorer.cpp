// SPDX-License-Identifier: Apache-2.0
#include "engine/scorer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "engine/memory_plan.h"
#include "engine/transfer.h"

namespace braid {
namespace {

ScoreOptions completed(ScoreOptions options) {
  CHECK(options.context > 0 && options.chunk > 0 && options.sequences > 0, "context={} chunk={} sequences={}",
        options.context, options.chunk, options.sequences);
  options.chunk = std::min(options.chunk, options.context);
  options.step_tokens = std::max(options.step_tokens, options.chunk);
  return options;
}

StepRunner::Options runner_options(const ScoreOptions& options) {
  return {.limits = {.tokens = options.step_tokens,
                     .sequences = options.sequences,
                     .heads = options.step_tokens,
                     .context = options.context},
          .drafts = options.drafts,
          .poison = options.poison};
}

}  // namespace

double token_loss(std::span<const float> logits, int32_t token) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) + (largest - logits[static_cast<size_t>(token)]);
}

// A document on its way.
struct Scorer::Reading {
  size_t document = 0;
  SequenceState state;
  size_t next_wanted = 0;  // index into its positions
};

Scorer::Scorer(const LoadedModel& model, const ScoreOptions& options)
    : model_(model),
      options_(completed(options)),
      pool_(model.executor, model.spec.needs,
            plan_state(model.spec.needs, {.context = options.context,
                                          .sequences = std::max<int32_t>(options.sequences, options.drafts)})),
      runner_(model, pool_, runner_options(options_)) {
  if (options_.poison)
    for (int need = 0; need < static_cast<int>(pool_.needs().size()); ++need)
      model_.executor.submit(Fill{.out = pool_.array({need}), .byte = 0xFF});
}

void Scorer::check(std::span<const int32_t> tokens) const {
  if (tokens.empty()) fail("the text is empty");
  if (std::ssize(tokens) > options_.context)
    fail("the text has {} tokens, the context holds {}", tokens.size(), options_.context);
  for (const int32_t token : tokens)
    if (token < 0 || token >= model_.spec.vocabulary)
      fail("token {} is outside of the vocabulary of {}", token, model_.spec.vocabulary);
}

// Gives state back whatever happens.
struct Scorer::Readings {
  explicit Readings(StatePool& owner) : pool(owner) {}
  ~Readings() {
    for (Reading& reading : list) pool.release(reading.state);
  }
  StatePool& pool;
  std::vector<Reading> list;
};

void Scorer::run(std::span<const ScoreDocument> documents, const std::function<void(const ScoredRow&)>& on_row,
                 const std::function<void(const TappedRows&)>& on_tap) {
  for (size_t i = 0; i < documents.size(); ++i)
    with_context(fmt::format("document {}", i + 1), [&] { check(documents[i].tokens); });
  Readings readings(pool_);
  std::vector<Reading>& list = readings.list;
  for (size_t opened = 0;;) {
    for (; std::ssize(list) < options_.sequences && opened < documents.size(); ++opened) {
      list.push_back({.document = opened, .state = pool_.acquire()});
      CHECK(pool_.grow(list.back().state, std::ssize(documents[opened].tokens)));
    }
    if (list.empty()) return;
    const std::vector<SequenceRows> rows = next_rows(documents, list);
    PassTap tap;
    if (on_tap)
      tap = [&](const BuiltBatch& built, int layer, Tensor stream) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const int64_t count = std::ssize(rows[i].tokens);
          on_tap({.document = list[i].document,
                  .layer = layer,
                  .position = list[i].state.length,
                  .count = count,
                  .values = download_floats(model_.executor, stream.slice_rows(built.starts[i], count))});
        }
      };
    runner_.run(
        rows, [&](const Pass& pass) { hand_out(pass, list, on_row); }, tap);
    model_.executor.wait();
    for (size_t i = 0; i < rows.size(); ++i)
      pool_.commit(list[i].state, list[i].state.length + std::ssize(rows[i].tokens));
    std::erase_if(list, [&](Reading& reading) {
      const bool done = reading.state.length == std::ssize(documents[reading.document].tokens);
      if (done) pool_.release(reading.state);
      return done;
    });
  }
}

// The next range of as many documents as fit in a step, in the order of the list.
std::vector<SequenceRows> Scorer::next_rows(std::span<const ScoreDocument> documents,
                                            std::vector<Reading>& list) const {
  std::vector<SequenceRows> rows;
  int64_t budget = options_.step_tokens;
  for (Reading& reading : list) {
    const ScoreDocument& document = documents[reading.document];
    const int64_t first = reading.state.length;
    const int64_t count = std::min(options_.chunk, std::ssize(document.tokens) - first);
    if (count > budget) break;
    budget -= count;
    SequenceRows& row = rows.emplace_back(SequenceRows{.state = &reading.state});
    row.tokens = document.tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    for (; reading.next_wanted < document.positions.size(); ++reading.next_wanted) {
      const int64_t offset = document.positions[reading.next_wanted] - first;
      if (offset >= count) break;
      row.heads.push_back(offset);
    }
  }
  return rows;
}

void Scorer::hand_out(const Pass& pass, std::span<const Reading> list,
                      const std::function<void(const ScoredRow&)>& on_row) {
  const BuiltBatch& built = pass.built;
  if (built.heads.empty()) return;
  const std::vector<float> logits = download_floats(model_.executor, pass.outputs.logits);
  std::vector<float> hidden;
  if (options_.hidden) hidden = download_floats(model_.executor, pass.outputs.hidden);
  const auto row = [](const std::vector<float>& values, int64_t index, int64_t width) {
    return std::span(values).subspan(static_cast<size_t>(index * width), static_cast<size_t>(width));
  };
  for (size_t i = 0; i < built.heads.size(); ++i) {
    const auto [index, offset] = built.heads[i];
    ScoredRow scored{.document = list[index].document,
                     .position = list[index].state.length + offset,
                     .logits = row(logits, static_cast<int64_t>(i), model_.spec.vocabulary)};
    if (options_.hidden) scored.hidden = row(hidden, built.starts[index] + offset, model_.spec.width);
    on_row(scored);
  }
}

std::vector<DocumentLoss> Scorer::losses(std::span<const std::span<const int32_t>> documents) {
  std::vector<ScoreDocument> wanted;
  for (const auto& tokens : documents) {
    ScoreDocument& document = wanted.emplace_back(ScoreDocument{.tokens = tokens});
    document.positions.resize(tokens.empty() ? 0 : tokens.size() - 1);
    std::iota(document.positions.begin(), document.positions.end(), 0);
  }
  std::vector<DocumentLoss> losses(documents.size());
  run(wanted, [&](const ScoredRow& row) {
    DocumentLoss& loss = losses[row.document];
    loss.sum += token_loss(row.logits, documents[row.document][static_cast<size_t>(row.position) + 1]);
    ++loss.tokens;
  });
  return losses;
}

void Scorer::drafts(std::span<const int32_t> tokens, const std::function<void(const DraftedRow&)>& on_row) {
  CHECK(model_.spec.drafter && options_.drafts > 0, "drafts={}", options_.drafts);
  check(tokens);
  // The trunk shares a sequence with the first depth; deeper ones have keys and values of their own.
  Readings readings(pool_);
  for (int depth = 1; depth <= options_.drafts; ++depth) {
    readings.list.push_back({.state = pool_.acquire()});
    CHECK(pool_.grow(readings.list.back().state, std::ssize(tokens)));
  }
  const int64_t length = std::ssize(tokens);
  for (int64_t at = 0; at < length; at += options_.chunk) {
    const int64_t count = std::min(options_.chunk, length - at);
    const Drafting drafting{readings.list, tokens, at, at + count, on_row};
    const std::vector<SequenceRows> rows{
        {.state = &readings.list.front().state,
         .tokens = tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count))}};
    runner_.run(rows, [&](const Pass& pass) { draft(drafting, 1, pass.outputs.hidden); });
    model_.executor.wait();
    for (Reading& reading : readings.list) pool_.commit(reading.state, at + count);
  }
}

void Scorer::draft(const Drafting& drafting, int depth, Tensor hidden) {
  const int64_t end = std::min(drafting.end, std::ssize(drafting.tokens) - depth), count = end - drafting.begin;
  if (depth > options_.drafts || count <= 0) return;
  std::vector<SequenceRows> rows{
      {.state = &drafting.states[static_cast<size_t>(depth - 1)].state,
       .tokens = drafting.tokens.subspan(static_cast<size_t>(drafting.begin + depth), static_cast<size_t>(count))}};
  rows[0].heads.resize(static_cast<size_t>(count));
  std::iota(rows[0].heads.begin(), rows[0].heads.end(), 0);
  runner_.draft(rows, hidden.slice_rows(0, count), [&](const Pass& pass) {
    const std::vector<float> logits = download_floats(model_.executor, pass.outputs.logits);
    const auto width = static_cast<size_t>(model_.spec.vocabulary);
    for (int64_t i = 0; i < count; ++i)
      drafting.on_row({.depth = depth,
                       .position = drafting.begin + i,
                       .logits = std::span(logits).subspan(static_cast<size_t>(i) * width, width)});
    draft(drafting, depth + 1, pass.outputs.hidden);
  });
}

}  // namespace braid
