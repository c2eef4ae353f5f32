// Recurrent mixers: the gated delta rule with its short convolution, gates and output norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/rows.h"
#include "tensor/tensor.h"

namespace braid {

enum class OutputGate : uint8_t { Silu, Sigmoid };

// Gated DeltaNet between its projections (Yang et al., "Gated Delta Networks", 2024; semantics section 3), fused into
// one word because every value head runs from its inputs to its output without another head's.
//
//   conv    y[t, c] = silu(sum_j conv[c, j] * x[t - taps + 1 + j, c]), x = qkv, left context from conv_state
//   gates   beta = sigmoid(b) * beta_scale;  lg = -exp(a_log) * softplus(a + dt_bias)
//   heads   q = y_q / sqrt(sum y_q^2 + 1e-6) / sqrt(Dk);  k = y_k / sqrt(sum y_k^2 + 1e-6);  v = y_v
//           value head h reads key head h div (value heads / key heads)
//   rule    S <- e^lg S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q          (S is [Dk, Dv])
//   output  out = rms(o) * norm * gate(z), per value head
//
// Shapes    qkv: [tokens, C], columns q | k | v, C = 2 key_heads Dk + value_heads Dv; z, out: [tokens, value_heads Dv];
//           b, a: [tokens, value_heads]; conv: f32 [C, taps]; a_log, dt_bias: f32 [value_heads]; norm: f32 [Dv]
// State     conv_state: f32 [slots, taps - 1, C], inputs before the activation, newest last;
//           state: f32 [slots, value_heads, Dk, Dv]; slot rows.slots[s] is read and written once per sequence
// Rounding  everything in f32 until one rounding into out. Several rows of one sequence may be computed in chunks whose
//           borders are absolute multiples of 64 (semantics 3.8); the result equals the rule above within f32 rounding.
//           Where several rows meet heads of 128 and four taps, an executor that rounds the operands of products may
//           round those of the chunk form to f16, within 2^-24 and 65504: q, k and v after their normalisation,
//           S and u where products take them, and the matrices between rows. S itself stays f32.
struct DeltaRule {
  static constexpr std::string_view name = "delta_rule";
  Tensor out, qkv, z, b, a;
  Tensor conv, a_log, dt_bias, norm;
  Tensor conv_state, state;
  int32_t key_heads = 0, value_heads = 0;
  float epsilon = 1e-6f;
  float beta_scale = 1.0f;
  OutputGate gate = OutputGate::Silu;
  Rows rows;
  int64_t key_size() const { return state.size(2); }
  int64_t value_size() const { return state.size(3); }
  void fields(auto&& visit) {
    visit.out("out", out), visit.in("qkv", qkv), visit.in("z", z), visit.in("b", b), visit.in("a", a);
    visit.in("conv", conv), visit.in("a_log", a_log), visit.in("dt_bias", dt_bias), visit.in("norm", norm);
    visit.rows(rows), visit.slots("conv_state", conv_state, rows), visit.slots("state", state, rows);
  }
};

}  // namespace braid
