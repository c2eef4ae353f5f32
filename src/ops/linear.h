// Products with weight matrices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace braid {

// Up to four products that share one input: out_i = x * weight_i^T (semantics LIN-1). Formats may differ between them.
// Shapes    x: [tokens, K] f32 or bf16; weight_i: [N_i, K], count 1; out_i: [tokens, N_i] f32 or bf16, rows may be
// strided Rounding  sums in f32, one rounding into out. An executor may round x to bf16 first where its `operands`
// setting says "fast". Order     the sum of an output depends on the weight's shape and format, not on the number of
// rows (LIN-5), on reference and cpu
struct Linear {
  static constexpr std::string_view name = "linear";
  struct Target {
    Tensor out;
    const Weight* weight = nullptr;
  };
  Tensor x;
  std::array<Target, 4> targets{};  // the first absent weight ends the list
  bool exact = false;               // operands are not rounded: for what steers a decay or a choice
  void fields(auto&& visit) {
    visit.in("x", x);
    for (Target& target : targets)
      if (target.weight != nullptr) visit.out("out", target.out), visit.weight("weight", target.weight);
  }
};

enum class Activation : uint8_t { Silu };

// out = act(x * G^T) * (x * U^T), where `gate_up` holds the rows of G, then those of U.
// Shapes    x: [tokens, K]; gate_up: [2N, K], count 1; out: [tokens, N]
// Rounding  as Linear; gate, up and their product stay in f32
struct GatedLinear {
  static constexpr std::string_view name = "gated_linear";
  Tensor out, x;
  const Weight* gate_up = nullptr;
  Activation activation = Activation::Silu;
  void fields(auto&& visit) { visit.out("out", out), visit.in("x", x), visit.weight("gate_up", gate_up); }
};

}  // namespace braid
