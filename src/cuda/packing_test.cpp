// SPDX-License-Identifier: Apache-2.0
#include "cuda/packing.h"

#include <gtest/gtest.h>

namespace braid::cuda {
namespace {

TEST(CudaPacking, SegmentsThatStartInsideABlockRepeatScales) {
  const std::vector<float> first{1, 2}, second{3, 4, 5, 6};
  Weight weight{.format = Fp8Block{}, .rows = 64 + 160, .columns = 256};
  weight.segments = {{.scales = first.data(), .rows = 64}, {.scales = second.data(), .rows = 160}};
  ASSERT_EQ(packed_block_rows(weight), 64);
  EXPECT_EQ(packed_scales(weight, 64), (std::vector<float>{1, 2, 0, 0, 3, 4, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0}));
}

TEST(CudaPacking, WholeBlocksStayWhole) {
  const std::vector<float> scales{1, 2, 3};
  Weight weight{.format = Fp8Block{}, .count = 2, .rows = 200, .columns = 100};
  weight.segments = {{.scales = scales.data(), .rows = 128},
                     {.scales = scales.data() + 1, .rows = 72},
                     {.scales = scales.data() + 1, .rows = 200}};
  ASSERT_EQ(packed_block_rows(weight), 128);
  EXPECT_EQ(packed_scales(weight, 128), (std::vector<float>{1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}));
}

}  // namespace
}  // namespace braid::cuda
