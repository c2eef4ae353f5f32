// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

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
                            {Fp8Block{.block_rows = 3, .block_columns = 5}, 0x1p-4, 0x1p-10 / 448},
                            {Fp8Row{}, 0x1p-4, 0x1p-10 / 448},
                            {Int8Row{}, 0, 0.5 / 127},
                            // Steps of a sixth to a third of a group's largest, whose scale is rounded to four bits:
                            // a value may also be cut to 6 times a scale that is 1/16 too small.
                            {Nvfp4{}, 0.25 + 0x1p-4, 0.25 / 6 * 17 / 16}};
  const int64_t count = 2, rows = 131, columns = 208;
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
        ASSERT_LE(std::fabs(decoded[static_cast<size_t>(k)] - value), c.relative + c.absolute == 0 ? 0 : slack)
            << name_of(c.format);
      }
    }
  }
}

// Every code, and the scales one after the other, by the definition.
TEST(Weight, CodesDecodeByTheDefinition) {
  const float halves[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  std::vector<std::byte> codes, groups = {std::byte{0x38}, std::byte{0x01}, std::byte{0x7E}, std::byte{0x00}};
  for (int g = 0; g < 4; ++g)
    for (int pair = 0; pair < 8; ++pair) codes.push_back(static_cast<std::byte>(2 * pair | (2 * pair + 1) << 4));
  const float scales[] = {0.75f, 3};
  Weight weight{.format = Nvfp4{}, .rows = 2, .columns = 32};
  weight.segments = {{.data = codes.data(), .scales = scales, .rows = 2, .groups = groups.data()}};
  const float group_values[] = {1, 0x1p-9f, 448, 0};
  std::vector<float> row(32);
  for (int64_t n = 0; n < 2; ++n) {
    decode_row(weight, 0, n, row);
    for (size_t k = 0; k < 32; ++k) {
      const size_t code = k % 16;
      const float value = code < 8 ? halves[code] : -halves[code - 8];
      ASSERT_EQ(row[k], value * group_values[static_cast<size_t>(2 * n) + k / 16] * scales[n]) << n << " " << k;
    }
  }
  EXPECT_EQ(weight.bytes(), 2 * (16 + 2 + 4));
  Weight whole{.format = Int8Row{}, .rows = 2, .columns = 2};
  const int8_t numbers[] = {-127, 5, 0, 127};
  whole.segments = {{.data = reinterpret_cast<const std::byte*>(numbers), .scales = scales, .rows = 2}};
  row.resize(2);
  decode_row(whole, 0, 1, row);
  EXPECT_EQ(row, (std::vector<float>{0, 381}));
}

TEST(Weight, CodesOfNvfp4TieToEven) {
  std::vector<float> values(16);
  // The largest is 6 under scales of 1, so that values are themselves.
  const float middles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, 6}, nearest[] = {0, 1, 1, 2, 2, 4, 4, 6};
  std::copy(std::begin(middles), std::end(middles), values.begin());
  std::vector<float> all(32, 0.0f);
  std::copy(values.begin(), values.end(), all.begin());
  all[16] = 6 * 448;  // makes the scale of the whole 1
  const OwnedWeight owned = encode(Nvfp4{}, all, 1, 1, 32);
  std::vector<float> row(32);
  decode_row(owned.weight, 0, 0, row);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(row[i], nearest[i]) << i;
  EXPECT_EQ(row[16], 6 * 448);
  EXPECT_EQ(row[17], 0);
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
