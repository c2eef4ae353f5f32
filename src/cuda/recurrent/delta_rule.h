// What the kernels of the gated delta rule share: prepared heads and gates, and the op's tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/attention/rows.h"
#include "cuda/common/reduce.h"
#include "ops/recurrent.h"

namespace braid::cuda {

struct DeltaView {
  View out, qkv, z, b, a;
  const float *conv, *a_log, *dt_bias, *norm;
  float *conv_state, *state;
  float* heads = nullptr;   // [tokens, channels]: q and k of unit length (q
                            // scaled), v, after the convolution
  float2* gates = nullptr;  // [tokens, value heads]: log decay, beta
  RowsView rows;
  int32_t key_heads, value_heads, keys, values, taps, channels;
  float epsilon, beta_scale;
  bool silu_gate;
  bool aligned;  // rows of qkv, z and out, and their start: whole groups of four
                 // numbers, aligned like vectors of them
};

// rms(o) * norm * gate(z): one number, given 1 / rms.
__device__ inline float finished(const DeltaView& d, float o, float factor, int64_t row, int head, int j) {
  const float z = get(d.z, row * d.z.stride[0] + head * d.values + j);
  return o * factor * d.norm[j] * (d.silu_gate ? silu(z) : sigmoid(z));
}

__device__ inline float* state_of(const DeltaView& d, int32_t sequence, int head) {
  return d.state + (int64_t{d.rows.slots[sequence]} * d.value_heads + head) * d.keys * d.values;
}

}  // namespace braid::cuda
