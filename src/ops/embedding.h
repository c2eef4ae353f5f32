// From token ids to rows of the stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace braid {

// out[t, :] = table[ids[t], :] * scale.
// Shapes    out: [tokens, width] f32 or bf16; ids: i32 [tokens], each in [0, table.rows); table: [vocabulary, width]
// Rounding  one, into out
struct Embed {
  static constexpr std::string_view name = "embed";
  Tensor out, ids;
  const Weight* table = nullptr;
  float scale = 1.0f;
  void fields(auto&& visit) {
    visit.out("out", out), visit.in("ids", ids), visit.gathered("table", table, ids.elements());
  }
};

}  // namespace braid
