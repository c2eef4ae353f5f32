// A gated feed-forward network: down(act(gate x) * up x).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/linear.h"
#include "state/need.h"
#include "tensor/tensor.h"
#include "weights/plan.h"

namespace braid {

class Step;

struct DenseFfn {
  MatrixId gate_up;  // [2 inner, width]
  MatrixId down;     // [width, inner]
  int64_t inner = 0;
  Activation activation = Activation::Silu;
};

void apply(Step& step, const DenseFfn& ffn, Tensor x, Tensor out);
void claim_state(DenseFfn& ffn, DType cache_type, const std::string& name, std::vector<StateNeed>& needs);
std::string describe(const DenseFfn& ffn);

}  // namespace braid
