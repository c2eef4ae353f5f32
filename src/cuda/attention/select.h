// How attention is cut into blocks: pure functions of the extents, the same for every device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace braid::cuda {

struct AttentionExtents {
  int64_t blocks = 0;  // of rows and groups of heads
  int64_t reach = 0;   // most positions that a row sees
  int multiprocessors = 0;
};

// Into how many pieces the plain kernel cuts each row's positions: enough to fill the device four blocks deep, no piece
// below 128 positions.
inline int attention_splits(const AttentionExtents& extents) {
  const int64_t wanted = 4 * int64_t{extents.multiprocessors} / std::max<int64_t>(extents.blocks, 1);
  return static_cast<int>(std::clamp<int64_t>(std::min(wanted, extents.reach / 128), 1, 64));
}

// Length of the pieces into which the tensor core kernel cuts the positions of a row that sees `length` of them, from
// position 0 on: it must not depend on the batch, so that a row's sums do not. Short pieces fill the device with one
// sequence, long ones leave less to join.
constexpr int32_t attention_piece(int64_t length) {
  if (length <= 8192) return 128;
  return length <= 16384 ? 256 : 512;
}

// The most pieces that a row can see, when no row sees more than `context` positions, or `window` where that is not 0.
constexpr int32_t most_attention_pieces(int64_t context, int64_t window) {
  const int64_t all = context <= 8192 ? (context + 127) / 128 : std::max<int64_t>(64, (context + 511) / 512);
  // A window reaches into one piece more than it fills.
  const int64_t seen = window > 0 ? std::min<int64_t>(all, (window + 127) / 128 + 1) : all;
  return static_cast<int32_t>(std::max<int64_t>(seen, 1));
}

}  // namespace braid::cuda
