// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

namespace braid {

TEST(DType, EveryE4m3CodeSurvivesARoundTrip) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(e4m3_to_float(static_cast<uint8_t>(code))));
    } else {
      EXPECT_EQ(float_to_e4m3(e4m3_to_float(static_cast<uint8_t>(code))), code);
    }
  }
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0f);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(float_to_e4m3(1e9f), 0x7E);
}

TEST(DType, E4m3RoundsToTheNearestWithTiesToEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code)), high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9f)), code + 1);
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1);
  }
}

TEST(DType, EveryF16CodeSurvivesARoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const float value = f16_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_f16(value), code);
    ASSERT_EQ(value, static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(code))));
  }
}

TEST(DType, Bf16RoundsTiesToEven) {
  EXPECT_EQ(float_to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(float_to_bf16(bf16_to_float(0x3F80) * (1 + 0x1p-8f)), 0x3F80);
  EXPECT_EQ(float_to_bf16(bf16_to_float(0x3F81) + 0x1p-8f), 0x3F82);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(NAN))));
}

}  // namespace braid
