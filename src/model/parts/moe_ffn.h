// A mixture of gated feed-forward experts, chosen per row, with an optional shared expert beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/linear.h"
#include "state/need.h"
#include "tensor/tensor.h"
#include "weights/plan.h"

namespace braid {

class Step;

struct SharedExpert {
  MatrixId gate_up, down;  // [2 inner, width], [width, inner]
  MatrixId gate;           // [1, width]: the expert's output is multiplied by its sigmoid; absent: by 1
  int64_t inner = 0;
};

struct MoeFfn {
  MatrixId router;         // [experts, width]
  MatrixId gate_up, down;  // `experts` matrices [2 inner, width], [width, inner]
  int32_t experts = 0, chosen = 0;
  int64_t inner = 0;
  bool normalise = true;  // chosen weights sum to one
  std::optional<SharedExpert> shared;
  Activation activation = Activation::Silu;
};

void apply(Step& step, const MoeFfn& ffn, Tensor x, Tensor out);
void claim_state(MoeFfn& ffn, DType cache_type, const std::string& name, std::vector<StateNeed>& needs);
std::string describe(const MoeFfn& ffn);

}  // namespace braid
