// SPDX-License-Identifier: Apache-2.0
#include "model/forward.h"

#include "model/stream.h"

namespace braid {
namespace {

Tensor embed(Step& step, const ModelSpec& model) {
  Tensor x = step.activations(model.width);
  step.run(Embed{.out = x, .ids = step.batch().tokens, .table = step.matrix(model.embedding.table)});
  return x;
}

// Runs the branches over the stream. Taps see the stream before a layer's first branch and after the last one.
void walk(Step& step, const std::vector<Branch>& branches, Stream& stream, const Tap& tap) {
  int layer = -1;
  for (const Branch& branch : branches) {
    if (tap && branch.layer != layer) tap(layer = branch.layer, stream.landed(step));
    Frame frame(step);  // what this branch allocates dies with it
    Tensor x = stream.read(step, branch.norm);
    std::visit([&](const auto& part) { apply(step, part, x, stream.landing()); }, branch.part);
    stream.write();
  }
  if (tap) tap(layer + 1, stream.landed(step));
}

Tensor logits(Step& step, const ModelSpec& model, Tensor hidden) {
  const Tensor rows = step.batch().head_rows;
  if (!rows) return {};
  Tensor out = step.allocate(DType::F32, {rows.rows(), model.vocabulary});
  Frame frame(step);
  Tensor chosen = step.allocate(hidden.dtype, {rows.rows(), model.width});
  step.run(Gather{.out = chosen, .x = hidden, .index = rows});
  step.run(Linear{.x = chosen, .targets = {{{.out = out, .weight = step.matrix(model.head)}}}});
  return out;
}

}  // namespace

Outputs forward(Step& step, const ModelSpec& model, const Tap& tap) {
  Stream stream(step, embed(step, model));
  walk(step, model.branches, stream, tap);
  Tensor hidden = stream.read(step, model.final_norm);
  return {.hidden = hidden, .logits = logits(step, model, hidden)};
}

Outputs draft(Step& step, const ModelSpec& model, Tensor hidden) {
  const Drafter& drafter = *model.drafter;
  Tensor x = step.activations(model.width);
  {
    Frame frame(step);
    Tensor pair = step.activations(2 * model.width);
    step.run(AddNorm{.out = pair.slice_columns(0, model.width),
                     .stream = embed(step, model),
                     .weight = step.vector(drafter.embedding_norm.weight),
                     .epsilon = drafter.embedding_norm.epsilon});
    step.run(AddNorm{.out = pair.slice_columns(model.width, model.width),
                     .stream = hidden,
                     .weight = step.vector(drafter.hidden_norm.weight),
                     .epsilon = drafter.hidden_norm.epsilon});
    step.run(Linear{.x = pair, .targets = {{{.out = x, .weight = step.matrix(drafter.join)}}}});
  }
  Stream stream(step, x);
  walk(step, drafter.branches, stream, nullptr);
  Tensor out = stream.read(step, drafter.final_norm);
  return {.hidden = out, .logits = logits(step, model, out)};
}

}  // namespace braid
