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

}  // namespace
}  // namespace braid::cuda
