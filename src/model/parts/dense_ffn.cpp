// SPDX-License-Identifier: Apache-2.0
#include "model/parts/dense_ffn.h"

#include <fmt/format.h>

#include "model/step.h"

namespace braid {

void apply(Step& step, const DenseFfn& ffn, Tensor x, Tensor out) {
  Tensor inner = step.activations(ffn.inner);
  step.run(GatedLinear{.out = inner, .x = x, .gate_up = step.matrix(ffn.gate_up), .activation = ffn.activation});
  step.run(Linear{.x = inner, .targets = {{{.out = out, .weight = step.matrix(ffn.down)}}}});
}

void claim_state(DenseFfn&, DType, const std::string&, std::vector<StateNeed>&) {}

std::string describe(const DenseFfn& ffn) { return fmt::format("dense ffn {}", ffn.inner); }

}  // namespace braid
