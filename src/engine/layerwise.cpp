// SPDX-License-Identifier: Apache-2.0
#include "engine/layerwise.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/transfer.h"
#include "model/stream.h"

namespace braid {
namespace {

// One executor's side of the comparison: a model, one sequence's state, step memory and the batch's arrays.
struct Side {
  LoadedModel model;
  StatePool pool;
  SequenceState sequence;
  BatchBuilder builder;
  Memory memory;
  Scratch scratch;

  Side(const LoadedModel& loaded, int64_t tokens, int64_t rows)
      : model(loaded),
        pool(loaded.executor, loaded.spec.needs, {.pages = StatePool::pages_for(tokens), .slots = 1}),
        sequence(pool.acquire()),
        builder(loaded.executor, pool, {.tokens = rows, .sequences = 1, .heads = 1, .context = tokens},
                loaded.spec.vocabulary) {
    StepRunner measured(loaded, pool, {.limits = {.tokens = rows, .sequences = 1, .heads = 1, .context = tokens}});
    // Beside what a step needs: the branch's input and output, and the scores of a router.
    const int64_t extra = rows * (2 * loaded.spec.width + 4096) * 4;
    memory = loaded.executor.allocate(measured.scratch_bytes() + static_cast<size_t>(extra));
    scratch = Scratch(memory.data(), memory.bytes());
    CHECK(pool.grow(sequence, tokens));
  }
};

std::vector<MemoryId> memories(const Part& part) {
  if (const auto* attention = std::get_if<Attention>(&part)) return {attention->keys, attention->values};
  if (const auto* net = std::get_if<DeltaNet>(&part)) return {net->conv_state, net->state};
  return {};
}

// Sums of squares.
struct Distance {
  double difference = 0, norm = 0;
  double relative() const {
    if (!std::isfinite(difference)) return INFINITY;
    return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
  }
};

Distance distance(std::span<const float> ours, std::span<const float> trusted) {
  Distance out;
  for (size_t i = 0; i < ours.size(); ++i) {
    out.difference += std::pow(static_cast<double>(ours[i]) - trusted[i], 2);
    out.norm += std::pow(static_cast<double>(trusted[i]), 2);
  }
  return out;
}

class Walk {
 public:
  struct Extents {
    int64_t tokens, rows;
  };
  Walk(const LoadedModel& trusted, const LoadedModel& other, const Extents& extents, bool round_input)
      : trusted_(trusted, extents.tokens, extents.rows),
        other_(other, extents.tokens, extents.rows),
        round_input_(round_input) {
    for (const Branch& branch : trusted.spec.branches)
      errors_.push_back(
          {.layer = branch.layer, .part = std::visit([](const auto& part) { return describe(part); }, branch.part)});
  }

  void chunk(std::span<const int32_t> tokens) {
    const SequenceRows rows{.state = &trusted_.sequence, .tokens = tokens},
        theirs{.state = &other_.sequence, .tokens = tokens};
    const BuiltBatch built = trusted_.builder.build(std::span(&rows, 1)),
                     other_built = other_.builder.build(std::span(&theirs, 1));
    Step step = make_step(trusted_, built.batch), other_step = make_step(other_, other_built.batch);
    Frame all(step), other_all(other_step);
    Tensor x = step.activations(trusted_.model.spec.width);
    step.run(Embed{.out = x, .ids = built.batch.tokens, .table = step.matrix(trusted_.model.spec.embedding.table)});
    Stream stream(step, x);
    for (size_t i = 0; i < errors_.size(); ++i) {
      const Branch& branch = trusted_.model.spec.branches[i];
      Frame frame(step), other_frame(other_step);
      Tensor input = stream.read(step, branch.norm);
      Tensor other_input = other_step.activations(input.width()), other_out = other_step.activations(input.width());
      copy(input, other_input);
      copy_state(branch.part);
      std::visit([&](const auto& part) { apply(step, part, input, stream.landing()); }, branch.part);
      std::visit([&](const auto& part) { apply(other_step, part, other_input, other_out); },
                 other_.model.spec.branches[i].part);
      stream.write();
      compare_rows(errors_[i], near_ties(step, other_step, branch.part, {input, other_input}), stream.landing(),
                   other_out);
      compare_state(errors_[i], branch.part);
    }
    const int64_t length = trusted_.sequence.length + std::ssize(tokens);
    trusted_.pool.commit(trusted_.sequence, length);
    other_.pool.commit(other_.sequence, length);
  }

  std::vector<BranchError> errors() && { return std::move(errors_); }

 private:
  static Step make_step(Side& side, const Batch& batch) {
    return Step({side.model.executor, side.scratch, side.model.weights, side.pool, batch});
  }

  void copy(Tensor from, Tensor to) {
    std::vector<float> values = download_floats(trusted_.model.executor, from);
    if (round_input_)
      for (float& value : values) value = bf16_to_float(float_to_bf16(value));
    upload_floats(other_.model.executor, to, values);
  }

  // A part's state array as floats, whatever its type.
  static std::vector<float> state_floats(Side& side, MemoryId memory) {
    return download_floats(side.model.executor, typed_state(side, memory));
  }
  static Tensor typed_state(Side& side, MemoryId memory) {
    const Tensor bytes = side.pool.array(memory);
    const bool paged = side.model.spec.needs[static_cast<size_t>(memory.index)].bytes_per_token > 0;
    const DType type = paged ? side.model.executor.cache_type() : DType::F32;
    return Tensor(bytes.data, type, {bytes.bytes() / size_of(type)});
  }
  void copy_state(const Part& part) {
    for (const MemoryId memory : memories(part))
      upload_floats(other_.model.executor, typed_state(other_, memory), state_floats(trusted_, memory));
  }

  // Rows whose trusted choice of experts the other's rounding may turn over.
  std::vector<bool> near_ties(Step& step, Step& other_step, const Part& part, std::pair<Tensor, Tensor> inputs) {
    std::vector<bool> out(static_cast<size_t>(inputs.first.rows()), false);
    const auto* moe = std::get_if<MoeFfn>(&part);
    if (moe == nullptr || moe->chosen == moe->experts) return out;
    const auto scores = [&](Side& side, Step& its_step, Tensor x) {
      Tensor logits = its_step.allocate(DType::F32, {x.rows(), moe->experts});
      its_step.run(
          Linear{.x = x, .targets = {{{.out = logits, .weight = its_step.matrix(moe->router)}}}, .exact = true});
      return download_floats(side.model.executor, logits);
    };
    const std::vector<float> ours = scores(trusted_, step, inputs.first),
                             theirs = scores(other_, other_step, inputs.second);
    const auto experts = static_cast<size_t>(moe->experts);
    for (size_t row = 0; row < out.size(); ++row) {
      double error = 0;
      std::vector<float> sorted(ours.begin() + static_cast<int64_t>(row * experts),
                                ours.begin() + static_cast<int64_t>((row + 1) * experts));
      for (size_t e = 0; e < experts; ++e)
        error = std::max(error, std::fabs(static_cast<double>(sorted[e]) - theirs[row * experts + e]));
      std::ranges::sort(sorted, std::greater());
      const double gap =
          static_cast<double>(sorted[static_cast<size_t>(moe->chosen - 1)]) - sorted[static_cast<size_t>(moe->chosen)];
      out[row] = gap <= 2 * error;  // each of the two scores may move by the error
    }
    return out;
  }

  void compare_rows(BranchError& error, const std::vector<bool>& left_out, Tensor trusted, Tensor other) {
    const std::vector<float> expected = download_floats(trusted_.model.executor, trusted);
    const std::vector<float> found = download_floats(other_.model.executor, other);
    const auto width = static_cast<size_t>(trusted.width());
    double difference = 0, norm = 0;
    for (size_t row = 0; row < left_out.size(); ++row) {
      error.rows += 1;
      if (left_out[row]) {
        error.near_ties += 1;
        continue;
      }
      const Distance row_distance =
          distance(std::span(found).subspan(row * width, width), std::span(expected).subspan(row * width, width));
      error.worst_row = std::max(error.worst_row, row_distance.relative());
      difference += row_distance.difference;
      norm += row_distance.norm;
    }
    error.output = std::max(error.output, Distance{difference, norm}.relative());
  }

  void compare_state(BranchError& error, const Part& part) {
    for (const MemoryId memory : memories(part))
      error.state =
          std::max(error.state, distance(state_floats(other_, memory), state_floats(trusted_, memory)).relative());
  }

  Side trusted_, other_;
  bool round_input_;
  std::vector<BranchError> errors_;
};

}  // namespace

std::vector<BranchError> compare_branches(const LoadedModel& trusted, const LoadedModel& other,
                                          std::span<const int32_t> tokens, const LayerwiseOptions& options) {
  const int64_t length = std::ssize(tokens), rows = options.chunk <= 0 ? length : std::min(options.chunk, length);
  Walk walk(trusted, other, {.tokens = length, .rows = rows}, options.round_input);
  for (int64_t at = 0; at < length; at += rows)
    walk.chunk(tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(rows, length - at))));
  return std::move(walk).errors();
}

}  // namespace braid
