// Words that move bytes: copy, gather, fill.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace braid {

// out = x, converted to out's type (f32, bf16) with one rounding; equal types move bits.
// Shapes  out, x: equal, any rank; rows may be strided. They must not overlap.
struct Copy {
  static constexpr std::string_view name = "copy";
  Tensor out, x;
  void fields(auto&& visit) { visit.out("out", out), visit.in("x", x); }
};

// out[i, :] = x[index[i], :], converted to out's type.
// Shapes  out: [n, width]; x: [rows, width]; index: i32 [n], each in [0, rows)
struct Gather {
  static constexpr std::string_view name = "gather";
  Tensor out, x, index;
  void fields(auto&& visit) { visit.out("out", out), visit.in("x", x), visit.in("index", index); }
};

// Sets every byte of `out`, which is contiguous: 0 clears a state slot, 0xFF poisons released memory with NaN.
struct Fill {
  static constexpr std::string_view name = "fill";
  Tensor out;
  uint8_t byte = 0;
  void fields(auto&& visit) { visit.out("out", out); }
};

}  // namespace braid
