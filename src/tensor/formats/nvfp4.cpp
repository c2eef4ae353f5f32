// SPDX-License-Identifier: Apache-2.0
#include "tensor/formats/nvfp4.h"

#include <algorithm>
#include <cmath>

namespace braid::formats {

namespace {

constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

uint8_t float_to_e2m1(float value) {
  const float magnitude = std::fabs(value);
  uint8_t code = 0;
  while (code < 7) {
    const float middle = (kValues[code] + kValues[code + 1]) / 2;
    if (magnitude < middle || (magnitude == middle && code % 2 == 0)) break;
    ++code;
  }
  return std::signbit(value) ? code | 8 : code;
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace

float e2m1_to_float(uint8_t code) { return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7]; }

void encode(const Nvfp4&, std::span<const float> values, int64_t columns, const Nvfp4Parts& parts) {
  const float largest = largest_of(values), whole = largest == 0 ? 1.0f : largest / (6 * 448);
  std::byte* codes = parts.codes;
  std::byte* groups = parts.groups;
  for (size_t at = 0; at < values.size(); at += Nvfp4::kGroup) {
    const auto group = values.subspan(at, Nvfp4::kGroup);
    const uint8_t scale_code = float_to_e4m3(largest_of(group) / 6 / whole);
    const float scale = e4m3_to_float(scale_code) * whole;
    *groups++ = std::byte{scale_code};
    for (size_t i = 0; i < group.size(); i += 2) {
      const auto code = [&](float value) { return scale == 0 ? uint8_t{0} : float_to_e2m1(value / scale); };
      *codes++ = static_cast<std::byte>(code(group[i]) | code(group[i + 1]) << 4);
    }
  }
  std::fill_n(parts.scales, static_cast<int64_t>(values.size()) / columns, whole);
}

void decode(const Nvfp4&, const std::byte* codes, const std::byte* groups, float scale, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto pair = static_cast<uint8_t>(codes[i / 2]);
    const float group = e4m3_to_float(static_cast<uint8_t>(groups[i / Nvfp4::kGroup]));
    out[i] = e2m1_to_float(i % 2 == 0 ? pair & 15 : pair >> 4) * group * scale;
  }
}

}  // namespace braid::formats
