// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/select.h"

#include <gtest/gtest.h>

namespace braid::cuda {
namespace {

TEST(AttentionSplits, FillTheDeviceAndStayLong) {
  const auto splits = [](int64_t blocks, int64_t reach) {
    return attention_splits({.blocks = blocks, .reach = reach, .multiprocessors = 132});
  };
  EXPECT_EQ(splits(1, 100), 1);
  EXPECT_EQ(splits(1, 1024), 8);
  EXPECT_EQ(splits(2, 1 << 20), 64);
  EXPECT_EQ(splits(64, 32768), 8);
  EXPECT_EQ(splits(8192, 8192), 1);
  EXPECT_EQ(splits(0, 0), 1);
}

// As many pieces as `most_attention_pieces` says, whatever the length and the window.
TEST(AttentionPieces, FitIntoWhatTheHostAllows) {
  for (int64_t context = 1; context < 70000; context = context * 5 / 4 + 1)
    for (int64_t length = 1; length <= context; length = length * 9 / 8 + 1)
      for (const int64_t window : {0, 1, 100, 129, 5000}) {
        const int64_t piece = attention_piece(length), last = length - 1;
        const int64_t first = window > 0 ? std::max<int64_t>(0, length - window) : 0;
        EXPECT_LE(last / piece - first / piece + 1, most_attention_pieces(context, window)) << context << " " << length;
      }
}

}  // namespace
}  // namespace braid::cuda
