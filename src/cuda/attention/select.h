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
// sequence, long ones leave less to start and to join.
constexpr int32_t attention_piece(int64_t length) {
  if (length <= 2048) return 128;
  if (length <= 8192) return 256;
  return length <= 24576 ? 512 : 1024;
}

// The most pieces that a row can see, when no row sees more than `context` positions, or `window` where that is not 0.
constexpr int32_t most_attention_pieces(int64_t context, int64_t window) {
  int64_t most = 1;
  for (const int64_t longest : {2048, 8192, 24576, 1 << 30}) {
    const int64_t length = std::min(longest, context), piece = attention_piece(length);
    // A window reaches into one piece more than it fills.
    const int64_t all = (length + piece - 1) / piece, seen = window > 0 ? (window + piece - 1) / piece + 1 : all;
    most = std::max(most, std::min(all, seen));
  }
  return static_cast<int32_t>(most);
}

}  // namespace braid::cuda
