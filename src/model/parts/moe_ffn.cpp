// SPDX-License-Identifier: Apache-2.0
#include "model/parts/moe_ffn.h"

#include <fmt/format.h>

#include "model/step.h"

namespace braid {

void apply(Step& step, const MoeFfn& ffn, Tensor x, Tensor out) {
  Tensor scores = step.allocate(DType::F32, {x.rows(), ffn.experts});
  Linear score{.x = x, .targets = {{{.out = scores, .weight = step.matrix(ffn.router)}}}, .exact = true};
  Tensor shared_gate;
  if (ffn.shared && ffn.shared->gate) {
    shared_gate = step.allocate(DType::F32, {x.rows(), 1});
    score.targets[1] = {.out = shared_gate, .weight = step.matrix(ffn.shared->gate)};
  }
  step.run(score);
  Tensor chosen = step.allocate(DType::I32, {x.rows(), ffn.chosen});
  Tensor weights = step.allocate(DType::F32, {x.rows(), ffn.chosen});
  step.run(Route{.chosen = chosen, .weights = weights, .logits = scores, .normalise = ffn.normalise});
  step.run(Experts{.out = out,
                   .x = x,
                   .chosen = chosen,
                   .weights = weights,
                   .gate_up = step.matrix(ffn.gate_up),
                   .down = step.matrix(ffn.down),
                   .shared_gate = shared_gate,
                   .shared_gate_up = ffn.shared ? step.matrix(ffn.shared->gate_up) : nullptr,
                   .shared_down = ffn.shared ? step.matrix(ffn.shared->down) : nullptr,
                   .activation = ffn.activation});
}

void claim_state(MoeFfn&, DType, const std::string&, std::vector<StateNeed>&) {}

std::string describe(const MoeFfn& ffn) {
  return fmt::format(
      "moe ffn {} of {} experts of {}{}{}", ffn.chosen, ffn.experts, ffn.inner, ffn.normalise ? ", normalised" : "",
      ffn.shared ? fmt::format(", shared {}{}", ffn.shared->inner, ffn.shared->gate ? " gated" : "") : "");
}

}  // namespace braid
