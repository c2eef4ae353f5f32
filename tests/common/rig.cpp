// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "engine/transfer.h"

namespace braid::tests {
namespace {

constexpr int32_t kSequences = 6;

RandomModel claimed(uint64_t seed, bool real_heads, DType cache) {
  RandomModel model = random_model(seed, real_heads);
  claim_state(model.spec, cache);
  return model;
}

std::vector<int64_t> all_rows(size_t count) {
  std::vector<int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

Rig::Rig(uint64_t seed, bool real_heads, Executor& executor)
    : executor_(executor),
      model_(claimed(seed, real_heads, executor.cache_type())),
      weights_(random_weights(model_.plan, executor, seed)) {
  pool_ = std::make_unique<StatePool>(
      executor, model_.spec.needs,
      StatePool::Limits{.pages = kSequences * StatePool::pages_for(kContext), .slots = kSequences});
  // Memory that nobody has written holds NaN: whoever reads it is found out.
  for (int need = 0; need < static_cast<int>(model_.spec.needs.size()); ++need)
    executor.submit(Fill{.out = pool_->array({need}), .byte = 0xFF});
  runner_ = std::make_unique<StepRunner>(
      loaded(), *pool_,
      StepRunner::Options{
          .limits = {.tokens = kContext, .sequences = kSequences, .heads = kContext, .context = kContext},
          .drafts = model_.spec.drafter ? 1 : 0,
          .poison = true});
}

Rig::~Rig() { executor_.wait(); }

bool Rig::has_state() const { return !model_.spec.needs.empty(); }

size_t Rig::start() {
  sequences_.push_back(pool_->acquire());
  return sequences_.size() - 1;
}

std::vector<Logits> Rig::feed(std::span<const std::pair<size_t, std::vector<int32_t>>> rows) {
  std::vector<SequenceRows> wanted;
  for (const auto& [sequence, tokens] : rows) {
    SequenceState& state = sequences_[sequence];
    CHECK(pool_->grow(state, state.length + std::ssize(tokens)));
    wanted.push_back({.state = &state, .tokens = tokens, .heads = all_rows(tokens.size())});
  }
  std::vector<Logits> out(rows.size());
  runner_->run(wanted, [&](const Pass& pass) {
    const std::vector<float> all = download_floats(executor_, pass.outputs.logits);
    const auto width = static_cast<size_t>(spec().vocabulary);
    for (size_t i = 0; i < pass.built.heads.size(); ++i)
      out[pass.built.heads[i].index].insert(out[pass.built.heads[i].index].end(),
                                            all.begin() + static_cast<int64_t>(i * width),
                                            all.begin() + static_cast<int64_t>((i + 1) * width));
  });
  for (const auto& [sequence, tokens] : rows)
    pool_->commit(sequences_[sequence], sequences_[sequence].length + std::ssize(tokens));
  return out;
}

Logits Rig::feed(size_t sequence, std::vector<int32_t> tokens) {
  const std::pair<size_t, std::vector<int32_t>> row{sequence, std::move(tokens)};
  return std::move(feed(std::span(&row, 1)).front());
}

Logits Rig::feed_draft(size_t sequence, std::vector<int32_t> tokens, std::vector<int32_t> next) {
  SequenceState& state = sequences_[sequence];
  CHECK(pool_->grow(state, state.length + std::ssize(tokens)) && tokens.size() == next.size());
  const SequenceRows trunk{.state = &state, .tokens = tokens},
      drafter{.state = &state, .tokens = next, .heads = all_rows(next.size())};
  Logits out;
  runner_->run(std::span(&trunk, 1), [&](const Pass& pass) {
    runner_->draft(std::span(&drafter, 1), pass.outputs.hidden,
                   [&](const Pass& drafted) { out = download_floats(executor_, drafted.outputs.logits); });
  });
  pool_->commit(state, state.length + std::ssize(tokens));
  return out;
}

void Rig::move(size_t sequence) {
  const Snapshot snapshot = pool_->snapshot(sequences_[sequence]);
  const int64_t length = sequences_[sequence].length;
  pool_->release(sequences_[sequence]);
  SequenceState other = pool_->acquire();  // takes the slot and pages that were given back, and soils them
  CHECK(pool_->grow(other, length));
  for (const StateNeed& need : pool_->needs()) {
    const Tensor array = pool_->array({static_cast<int>(&need - pool_->needs().data())});
    if (need.bytes_per_sequence > 0)
      executor_.submit(Fill{.out = array.slice_rows(other.slot, 1), .byte = 0xFF});
    else
      for (const int32_t page : other.pages) executor_.submit(Fill{.out = array.slice_rows(page, 1), .byte = 0xFF});
  }
  sequences_[sequence] = pool_->restore(snapshot);
  pool_->release(other);
}

size_t Rig::fork(size_t sequence) {
  sequences_.push_back(pool_->fork(sequences_[sequence]));
  return sequences_.size() - 1;
}

void Rig::check_integrity() const {
  std::vector<const SequenceState*> held;
  for (const SequenceState& state : sequences_) held.push_back(&state);
  pool_->check_integrity(held);
}

double row_error(const Logits& ours, const Logits& theirs, int64_t width) {
  if (ours.size() != theirs.size()) return INFINITY;
  double worst = 0;
  for (size_t row = 0; row < ours.size() / static_cast<size_t>(width); ++row) {
    double difference = 0, norm = 0;
    for (size_t i = row * static_cast<size_t>(width); i < (row + 1) * static_cast<size_t>(width); ++i) {
      difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
      norm += std::pow(static_cast<double>(theirs[i]), 2);
    }
    const double error = std::sqrt(difference / norm);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

std::vector<int32_t> random_tokens(uint64_t seed, int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(uniform(seed, i, 7) * static_cast<float>(vocabulary));
  return tokens;
}

}  // namespace braid::tests
