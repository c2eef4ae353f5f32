// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace braid {
namespace {

// Half a unit in the last place, relative to the value, and the smallest step, relative to the largest value of a
// block.
struct Rounding {
  Format format;
  double relative;
  double absolute;
};

TEST(Weight, EncodeThenDecodeStaysWithinHalfAStep) {
  const Rounding cases[] = {{Dense{DType::F32}, 0, 0},
                            {Dense{DType::BF16}, 0x1p-8, 0},
                            {Dense{DType::F16}, 0x1p-11, 0x1p-25},
                            {Fp8Block{}, 0x1p-4, 0x1p-10 / 448},
                            {Fp8Block{.block_rows = 3, .block_columns = 5}, 0x1p-4, 0x1p-10 / 448}};
  const int64_t count = 2, rows = 131, columns = 200;
  std::vector<float> values(static_cast<size_t>(count * rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (uniform(1, i, 0) - 0.5f) * std::exp2(8 * uniform(1, i / 1000, 1));
  for (const Rounding& c : cases) {
    const OwnedWeight owned = encode(c.format, values, count, rows, columns);
    std::vector<float> decoded(columns);
    for (int64_t row = 0; row < count * rows; ++row) {
      decode_row(owned.weight, row / rows, row % rows, decoded);
      for (int64_t k = 0; k < columns; ++k) {
        const double value = values[static_cast<size_t>(row * columns + k)];
        // The division by the scale and the product round once each in f32.
        const double slack = (c.relative + 2 * 0x1p-23) * std::fabs(value) + c.absolute * 128;
        ASSERT_LE(std::fabs(decoded[static_cast<size_t>(k)] - value), c.relative == 0 ? 0 : slack) << name_of(c.format);
      }
    }
  }
}

TEST(Weight, SegmentsAreFoundByRow) {
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6};
  Weight weight{.format = Dense{DType::F32}, .rows = 3, .columns = 2};
  weight.segments = {{.data = reinterpret_cast<const std::byte*>(b), .rows = 1},
                     {.data = reinterpret_cast<const std::byte*>(a), .rows = 2}};
  std::vector<float> row(2);
  decode_row(weight, 0, 0, row);
  EXPECT_EQ(row, (std::vector<float>{5, 6}));
  decode_row(weight, 0, 2, row);
  EXPECT_EQ(row, (std::vector<float>{3, 4}));
  EXPECT_EQ(weight.bytes(), 24);
}

}  // namespace
}  // namespace braid
