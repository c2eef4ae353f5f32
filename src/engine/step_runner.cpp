// SPDX-License-Identifier: Apache-2.0
#include "engine/step_runner.h"

#include <algorithm>

#include "ops/wrappers/listing.h"

namespace braid {

StepRunner::StepRunner(const LoadedModel& model, const StatePool& pool, const Options& options)
    : model_(model),
      pool_(&pool),
      poison_(options.poison),
      builder_(model.executor, pool, options.limits, model.spec.vocabulary),
      memory_(model.executor.allocate(std::max(measure(options.drafts), Scratch::kAlignment))),
      scratch_(memory_.data(), memory_.bytes()) {
  if (poison_)
    model.executor.submit(
        Fill{.out = Tensor(memory_.data(), DType::U8, {static_cast<int64_t>(memory_.bytes())}), .byte = 0xFF});
}

Step StepRunner::step(Scratch& scratch, const Batch& batch) const {
  return Step({.executor = model_.executor,
               .scratch = scratch,
               .weights = model_.weights,
               .state = *pool_,
               .batch = batch,
               .poison = poison_});
}

size_t StepRunner::measure(int drafts) const {
  ListingExecutor executor(model_.executor, nullptr);
  Scratch scratch;
  const Batch batch = builder_.largest();
  Step step({.executor = executor, .scratch = scratch, .weights = model_.weights, .state = *pool_, .batch = batch});
  Outputs outputs = forward(step, model_.spec, [](int, Tensor) {});
  for (int depth = 0; depth < drafts; ++depth) outputs = braid::draft(step, model_.spec, outputs.hidden);
  return scratch.peak();
}

void StepRunner::run(std::span<const SequenceRows> rows, const PassUse& use, const PassTap& tap) {
  const BuiltBatch built = builder_.build(rows);
  Step pass = step(scratch_, built.batch);
  Frame frame(pass);
  Tap plain;
  if (tap) plain = [&](int layer, Tensor stream) { tap(built, layer, stream); };
  const Rows& extents = built.batch.rows;
  const bool decodes = extents.thin == extents.tokens && std::ssize(built.heads) == extents.tokens;
  const Outputs outputs = decodes && !tap ? decode(pass, built.batch) : forward(pass, model_.spec, plain);
  use({.outputs = outputs, .built = built});
}

Outputs StepRunner::decode(Step& pass, const Batch& batch) {
  const auto [entry, first] = recorded_.try_emplace({batch.rows.tokens, batch.rows.reach()});
  Recorded& recorded = entry->second;
  recorded.last_use = ++decode_steps_;
  if (recorded.recording != nullptr) {
    if (model_.executor.replay(*recorded.recording)) {
      scratch_.claim(recorded.used);
      return recorded.outputs;
    }
    recorded.recording.reset();  // this step runs op by op, and the next one is recorded again
    return forward(pass, model_.spec);
  }
  if (recorded_.size() > kMostRecordings) forget_oldest();
  return first || recorded.refused ? forward(pass, model_.spec) : record(pass, recorded);
}

Outputs StepRunner::record(Step& pass, Recorded& recorded) {
  const size_t mark = scratch_.used();
  recorded.recording = model_.executor.record([&] {
    scratch_.release(mark);
    recorded.outputs = forward(pass, model_.spec);
  });
  recorded.used = scratch_.used();
  recorded.refused = recorded.recording == nullptr;
  return recorded.outputs;
}

void StepRunner::forget_oldest() {
  recorded_.erase(std::ranges::min_element(recorded_, {}, [](const auto& entry) { return entry.second.last_use; }));
}

void StepRunner::draft(std::span<const SequenceRows> rows, Tensor hidden, const PassUse& use) {
  const BuiltBatch built = builder_.build(rows);
  Step pass = step(scratch_, built.batch);
  Frame frame(pass);
  const Outputs outputs = braid::draft(pass, model_.spec, hidden);
  use({.outputs = outputs, .built = built});
}

}  // namespace braid
