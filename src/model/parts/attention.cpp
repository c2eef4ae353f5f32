// SPDX-License-Identifier: Apache-2.0
#include "model/parts/attention.h"

#include <fmt/format.h>

#include "model/step.h"
#include "ops/attention.h"

namespace braid {

void apply(Step& step, const Attention& a, Tensor x, Tensor out) {
  const int64_t query_width = a.heads * a.size, kv_width = a.kv_heads * a.size;
  Tensor projected = step.activations(a.gated ? 2 * query_width : query_width);
  Tensor k = step.activations(kv_width), v = step.activations(kv_width);
  step.run(Linear{.x = x,
                  .targets = {{{.out = projected, .weight = step.matrix(a.query)},
                               {.out = k, .weight = step.matrix(a.key)},
                               {.out = v, .weight = step.matrix(a.value)}}}});
  // Gated queries lie per head as [query | gate]: both are strided views of the projection.
  const Tensor per_head = projected.split_columns(a.heads);
  Tensor q = per_head.slice_columns(0, a.size);
  const PagedCache cache = step.cache(a.keys, a.values, a.kv_heads);
  step.run(PrepareHeads{.q = q,
                        .k = k.split_columns(a.kv_heads),
                        .v = v.split_columns(a.kv_heads),
                        .q_norm = step.vector(a.q_norm),
                        .k_norm = step.vector(a.k_norm),
                        .epsilon = a.epsilon,
                        .rope = {.frequencies = step.vector(a.frequencies), .scale = a.rope_scale},
                        .rows = step.rows(),
                        .cache = cache});
  Tensor mixed = step.activations(query_width);
  step.run(PagedAttention{.out = mixed.split_columns(a.heads),
                          .q = q,
                          .scale = a.scale,
                          .window = a.window,
                          .rows = step.rows(),
                          .cache = cache});
  if (a.gated) step.run(GateBy{.x = mixed.split_columns(a.heads), .gate = per_head.slice_columns(a.size, a.size)});
  step.run(Linear{.x = mixed, .targets = {{{.out = out, .weight = step.matrix(a.output)}}}});
}

void claim_state(Attention& a, DType cache_type, const std::string& name, std::vector<StateNeed>& needs) {
  const int64_t bytes = a.kv_heads * a.size * size_of(cache_type);
  a.keys = {static_cast<int>(needs.size())};
  needs.push_back({.name = name + ".keys", .bytes_per_token = bytes});
  a.values = {static_cast<int>(needs.size())};
  needs.push_back({.name = name + ".values", .bytes_per_token = bytes});
}

std::string describe(const Attention& a) {
  return fmt::format("attention {} heads of {}, {} kv{}{}{}{}", a.heads, a.size, a.kv_heads,
                     a.q_norm ? ", head norms" : "", a.frequencies ? ", rope" : "",
                     a.window > 0 ? fmt::format(", window {}", a.window) : "", a.gated ? ", gated" : "");
}

}  // namespace braid
