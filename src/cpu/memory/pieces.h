// Sharing the rows of an op among the team.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/share.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {

// Calls run(row) for this member's share of `rows` rows, taken so many at a time that a piece has about `elements` of
// `width` elements a row.
template <typename Run>
BRAID_INLINE void for_rows(const Share& share, int64_t rows, int64_t width, int64_t elements, Run run) {
  const int64_t step = width >= elements ? 1 : elements / (width > 0 ? width : 1);
  const int64_t pieces = (rows + step - 1) / step;
  for (int64_t piece = share.take(pieces); piece >= 0; piece = share.take(pieces)) {
    const int64_t end = rows < (piece + 1) * step ? rows : (piece + 1) * step;
    for (int64_t row = piece * step; row < end; ++row) run(row);
  }
}

}  // namespace braid::cpu::BRAID_ISA
