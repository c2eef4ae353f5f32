// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/select.h"

#include <gtest/gtest.h>

namespace braid::cuda {
namespace {

ProductExtents usual(int64_t tokens) {
  return {.tokens = tokens,
          .rows = 4096,
          .columns = 2048,
          .fp8 = true,
          .block_rows = 128,
          .block_columns = 128,
          .x_bf16 = true,
          .aligned = true,
          .matrix_library = true};
}

TEST(ChooseProduct, ThinUntilTheLibraryPays) {
  for (const bool fp8 : {false, true}) {
    ProductExtents few = usual(kThinFewTokens), many = usual(kThinFewTokens + 1);
    few.fp8 = many.fp8 = fp8, few.bf16 = many.bf16 = !fp8;
    EXPECT_EQ(choose_product(few), ProductKernel::Thin);
    EXPECT_EQ(choose_product(many), fp8 ? ProductKernel::Coded : ProductKernel::Wide);
    many.matrix_library = false;
    EXPECT_EQ(choose_product(many), ProductKernel::Thin);
  }
}

TEST(ChooseProduct, FewRowsGoThroughRingsWhereTheyCan) {
  ProductExtents few = usual(kFewTokens), many = usual(kFewTokens + 1), exact = usual(1);
  few.ring_rows = many.ring_rows = exact.ring_rows = 16, exact.exact = true;
  EXPECT_EQ(choose_product(few), ProductKernel::Ring);
  EXPECT_EQ(choose_product(many), ProductKernel::Coded);
  EXPECT_EQ(choose_product(exact), ProductKernel::Thin);
}

TEST(ChooseProduct, OtherCodingsAreDecodedInPasses) {
  ProductExtents other = usual(kPassTokens);
  other.fp8 = false, other.nvfp4 = true, other.ring_rows = 3;
  EXPECT_EQ(choose_product(other), ProductKernel::Ring);
  other.tokens = kPassTokens + 1;
  EXPECT_EQ(choose_product(other), ProductKernel::Wide);
  other.nvfp4 = false, other.int8 = true;
  EXPECT_EQ(choose_product(other), ProductKernel::Coded);
  other.tokens = kFewTokens;
  EXPECT_EQ(choose_product(other), ProductKernel::Ring);
}

TEST(ChooseProduct, BlocksThatTheLibraryDoesNotTakeAreDecodedOnceThatPays) {
  ProductExtents cut = usual(8192), odd_pair = usual(8192), exact = usual(8192);
  cut.block_rows = 64;
  odd_pair.gated = true, odd_pair.rows = 128 * 3;
  exact.exact = true;  // x is bf16 already; decoded weights may not be rounded
  EXPECT_EQ(choose_product(exact), ProductKernel::Thin);
  for (ProductExtents e : {cut, odd_pair}) {
    EXPECT_EQ(choose_product(e), ProductKernel::Wide);
    e.tokens = 128;
    EXPECT_EQ(choose_product(e), ProductKernel::Thin);
  }
}

TEST(ChooseProduct, OddShapesAndExactOperandsArePlain) {
  ProductExtents odd = usual(4), exact = usual(4), blocks = usual(4), coding = usual(4);
  odd.columns = 200;
  exact.exact = true, exact.x_bf16 = false;
  blocks.block_columns = 64;
  coding.fp8 = false;
  for (const ProductExtents& e : {odd, exact, blocks, coding}) EXPECT_EQ(choose_product(e), ProductKernel::Plain);
  exact.x_bf16 = true;
  EXPECT_EQ(choose_product(exact), ProductKernel::Thin);
}

TEST(ChooseProduct, SimpleProductsOfRowsAsTheyAreHaveTheirKernel) {
  ProductExtents gates{.tokens = 3, .rows = 48, .columns = 5120, .bf16 = true};
  gates.aligned = gates.exact = gates.simple = true;
  EXPECT_EQ(choose_product(gates), ProductKernel::Exact);
  ProductExtents grouped = gates, odd = gates;
  grouped.simple = false, odd.columns = 5121;
  for (const ProductExtents& e : {grouped, odd}) EXPECT_EQ(choose_product(e), ProductKernel::Plain);
}

TEST(RingGrid, PairsShareTilesWhereThatLeavesLessToTheLastOnes) {
  const auto expect = [](int64_t tiles, int64_t tokens, int ranks, int clusters) {
    const RingGrid grid = ring_grid(tiles, 40, tokens, 132);
    EXPECT_EQ(grid.ranks, ranks) << tiles;
    EXPECT_EQ(grid.clusters, clusters) << tiles;
  };
  expect(1024, 1, 1, 132);  // 8 tiles a block; pairs would have 16 halves
  expect(128, 1, 1, 128), expect(132, 1, 1, 132);
  expect(320, 1, 2, 66);  // 5 halves instead of 3 tiles
  expect(64, 1, 2, 64), expect(1, 1, 2, 1);
  expect(1024, kRingPairTokens, 2, 66);
  EXPECT_EQ(ring_grid(5, 40, 16, 1).ranks, 1);  // a pair needs two multiprocessors, and two chunks
  EXPECT_EQ(ring_grid(5, 1, 16, 132).ranks, 1);
}

}  // namespace
}  // namespace braid::cuda
