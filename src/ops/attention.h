// Softmax attention over paged keys and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "ops/rows.h"
#include "tensor/tensor.h"

namespace braid {

// Rotary positions (semantics 4.4), half-split pairs: feature i < rot/2 pairs with i + rot/2; features from rot on
// pass. angle = position * frequencies[i]; cos and sin are multiplied by `scale` (YaRN's attention factor).
struct Rope {
  Tensor frequencies;  // f32 [rot / 2]; empty: no rotation
  float scale = 1.0f;
};

// Makes query and key heads ready and stores keys and values at the rows' positions.
//
//   q = rope(rms(q) * q_norm), in place;   cache.keys[position] = rope(rms(k) * k_norm);   cache.values[position] = v
//
// Shapes    q: [tokens, query heads, size]; k, v: [tokens, kv heads, size], rows and heads may be strided; norms: f32
// [size],
//           empty: that norm is skipped
// Rounding  f32 until one rounding into q and into the cache; angles in f32 from integer positions
struct PrepareHeads {
  static constexpr std::string_view name = "prepare_heads";
  Tensor q, k, v, q_norm, k_norm;
  float epsilon = 1e-6f;
  Rope rope;
  Rows rows;
  PagedCache cache;
  void fields(auto&& visit) {
    visit.inout("q", q), visit.in("k", k), visit.in("v", v), visit.in("q_norm", q_norm), visit.in("k_norm", k_norm);
    visit.in("frequencies", rope.frequencies), visit.rows(rows), visit.cache(cache, true);
  }
};

// out[t, h] = sum over j of softmax_j(scale * q[t, h] . key[j, g]) * value[j, g], g = h div (query heads / kv heads),
// over positions j <= position(t), and j > position(t) - window where window > 0 (a window counts the query itself).
// Shapes    out, q: [tokens, query heads, size], rows and heads may be strided
// Rounding  scores, softmax and sums in f32; one rounding into out. An executor that rounds operands of products
//           (Precision::attention) may round queries, and shares before they meet the values, to bf16
struct PagedAttention {
  static constexpr std::string_view name = "paged_attention";
  Tensor out, q;
  float scale = 1.0f;
  int64_t window = 0;
  Rows rows;
  PagedCache cache;
  void fields(auto&& visit) { visit.out("out", out), visit.in("q", q), visit.rows(rows), visit.cache(cache, false); }
};

// x *= sigmoid(gate).
// Shapes  x, gate: [tokens, heads, size]; gate's rows and heads may be strided
struct GateBy {
  static constexpr std::string_view name = "gate_by";
  Tensor x, gate;
  void fields(auto&& visit) { visit.inout("x", x), visit.in("gate", gate); }
};

}  // namespace braid
