// SPDX-License-Identifier: Apache-2.0
#include "tensor/formats/row_scaled.h"

#include <algorithm>
#include <cmath>

namespace braid::formats {

namespace {

template <typename Code>
void encode_rows(std::span<const float> values, int64_t columns, float most, std::byte* codes, float* scales,
                 const Code& code) {
  const auto width = static_cast<size_t>(columns);
  for (; !values.empty(); values = values.subspan(width)) {
    float largest = 0;
    for (const float value : values.first(width)) largest = std::max(largest, std::fabs(value));
    const float scale = largest == 0 ? 1.0f : largest / most;
    *scales++ = scale;
    for (const float value : values.first(width)) *codes++ = code(value / scale);
  }
}

}  // namespace

void encode(const Fp8Row&, std::span<const float> values, int64_t columns, std::byte* codes, float* scales) {
  encode_rows(values, columns, 448, codes, scales, [](float value) { return std::byte{float_to_e4m3(value)}; });
}

void encode(const Int8Row&, std::span<const float> values, int64_t columns, std::byte* codes, float* scales) {
  encode_rows(values, columns, 127, codes, scales, [](float value) {
    return static_cast<std::byte>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.0f, 127.0f)));
  });
}

void decode(const Fp8Row&, const std::byte* codes, float scale, std::span<float> out) {
  for (float& value : out) value = e4m3_to_float(static_cast<uint8_t>(*codes++)) * scale;
}

void decode(const Int8Row&, const std::byte* codes, float scale, std::span<float> out) {
  for (float& value : out) value = static_cast<float>(static_cast<int8_t>(*codes++)) * scale;
}

}  // namespace braid::formats
