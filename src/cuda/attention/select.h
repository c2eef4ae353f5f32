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

// Into how many pieces each row's positions are cut: enough to fill the device four blocks deep, no piece below 128
// positions.
inline int attention_splits(const AttentionExtents& extents) {
  const int64_t wanted = 4 * int64_t{extents.multiprocessors} / std::max<int64_t>(extents.blocks, 1);
  return static_cast<int>(std::clamp<int64_t>(std::min(wanted, extents.reach / 128), 1, 64));
}

}  // namespace braid::cuda
