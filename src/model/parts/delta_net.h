// Gated DeltaNet: a recurrence with one matrix of state per head, behind a short convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/recurrent.h"
#include "state/need.h"
#include "tensor/tensor.h"
#include "weights/plan.h"

namespace braid {

class Step;

struct DeltaNet {
  MatrixId qkv;   // [2 key_heads key_size + value_heads value_size, width], rows q | k | v
  MatrixId z;     // [value_heads value_size, width]
  MatrixId b, a;  // [value_heads, width]
  MatrixId output;
  VectorId conv, a_log, dt_bias, norm;
  float epsilon = 1e-6f;
  float beta_scale = 1.0f;
  OutputGate gate = OutputGate::Silu;
  int32_t key_heads = 0, value_heads = 0, taps = 4;
  int64_t key_size = 0, value_size = 0;
  MemoryId conv_state, state;
  int64_t channels() const { return 2 * key_heads * key_size + value_heads * value_size; }
};

void apply(Step& step, const DeltaNet& net, Tensor x, Tensor out);
void claim_state(DeltaNet& net, DType cache_type, const std::string& name, std::vector<StateNeed>& needs);
std::string describe(const DeltaNet& net);

}  // namespace braid
