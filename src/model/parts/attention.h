// Softmax attention over the sequence's own past, with optional head norms, rotary positions and output gate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "state/need.h"
#include "tensor/tensor.h"
#include "weights/plan.h"

namespace braid {

class Step;

struct Attention {
  MatrixId query;  // [heads * size, width]; with `gated`: [heads * 2 * size, width], per head its query, then its gate
  MatrixId key, value, output;
  VectorId q_norm, k_norm;  // [size], absent: no norm
  float epsilon = 1e-6f;
  int32_t heads = 0, kv_heads = 0;
  int64_t size = 0;
  VectorId frequencies;  // [rot / 2], absent: no rotation
  float rope_scale = 1.0f;
  float scale = 1.0f;  // of the scores
  int64_t window = 0;  // 0: all of the past
  bool gated = false;  // output *= sigmoid(gate)
  MemoryId keys, values;
};

// out[tokens, width] = the part applied to x[tokens, width].
void apply(Step& step, const Attention& attention, Tensor x, Tensor out);
// What it remembers: two paged arrays, elements of `cache_type`. Sets the handles.
void claim_state(Attention& attention, DType cache_type, const std::string& name, std::vector<StateNeed>& needs);
std::string describe(const Attention& attention);

}  // namespace braid
