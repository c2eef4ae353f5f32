// The residual stream: adding what a branch wrote, and normalising what the next one reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace braid {

// Adds `add` to the stream, then writes the normalised stream to `out`.
//
//   stream += add                                         (skipped when add is empty)
//   out     = stream / sqrt(mean(stream^2) + epsilon) * weight      (skipped when out is empty; weight empty: factor 1)
//
// Shapes    out, stream, add: [tokens, width], rows may be strided; weight: f32 [width]. Norms that multiply by 1+w
// have the 1
//           added when the weight is loaded.
// Rounding  statistics in f32; stream keeps its type; one rounding into out
// Aliases   out may be add; never stream
struct AddNorm {
  static constexpr std::string_view name = "add_norm";
  Tensor out, stream, add, weight;
  float epsilon = 1e-6f;
  void fields(auto&& visit) {
    visit.out("out", out);
    add ? visit.inout("stream", stream) : visit.in("stream", stream);
    visit.in("add", add), visit.in("weight", weight);
  }
};

}  // namespace braid
