// Mixtures of experts: choosing, and computing what was chosen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/linear.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace braid {

// Chooses k experts a row by the softmax of its logits: chosen = those of the k largest logits, descending, ties to the
// lower index (logits are compared, not probabilities, which may round to ties; NaN counts as -infinity); weights =
// their probabilities, divided by their sum when `normalise`. Shapes    chosen: i32 [tokens, k]; weights: f32 [tokens,
// k]; logits: f32 [tokens, experts], k <= experts
struct Route {
  static constexpr std::string_view name = "route";
  Tensor chosen, weights, logits;
  bool normalise = true;
  void fields(auto&& visit) { visit.out("chosen", chosen), visit.out("weights", weights), visit.in("logits", logits); }
};

// out[t] = sum over slots s, ascending, of weights[t, s] * E_chosen[t, s](x[t])  +  sigmoid(shared_gate[t]) * S(x[t]),
// E_e(x) = (act(x G_e^T) * (x U_e^T)) D_e^T; S likewise from the shared matrices. No shared_gate_up: no second term; no
// shared_gate: its factor is 1.
// Shapes    out, x: [tokens, K]; chosen: i32 [tokens, k]; weights: f32 [tokens, k]; gate_up: `count` matrices [2I, K]
// (rows of
//           gate, then of up); down: `count` matrices [K, I]; shared_gate: f32 [tokens, 1]; shared_gate_up: [2J, K];
//           shared_down: [K, J]
// Rounding  as Linear; the sum over experts in f32, one rounding into out; the bits of row t do not
//           depend on other rows where the executor keeps rows independent
struct Experts {
  static constexpr std::string_view name = "experts";
  Tensor out, x, chosen, weights;
  const Weight* gate_up = nullptr;
  const Weight* down = nullptr;
  Tensor shared_gate;
  const Weight* shared_gate_up = nullptr;
  const Weight* shared_down = nullptr;
  Activation activation = Activation::Silu;
  void fields(auto&& visit) {
    visit.out("out", out), visit.in("x", x), visit.in("chosen", chosen), visit.in("weights", weights);
    visit.chosen("gate_up", gate_up, chosen), visit.chosen("down", down, chosen);
    visit.in("shared_gate", shared_gate);
    if (shared_gate_up != nullptr)
      visit.weight("shared_gate_up", shared_gate_up), visit.weight("shared_down", shared_down);
  }
};

}  // namespace braid
