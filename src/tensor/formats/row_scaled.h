// Codes of one byte with one f32 scale a row, E4M3 or whole numbers: layout, encode, decode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace braid::formats {

// Codes are rows x columns bytes, row-major; a scale for each row. Encoding: scale = max |w| of the row / 448 or / 127
// (1 for a row of zeros), code = the nearest to w / scale (semantics LIN-13, LIN-22).
void encode(const Fp8Row& format, std::span<const float> values, int64_t columns, std::byte* codes, float* scales);
void encode(const Int8Row& format, std::span<const float> values, int64_t columns, std::byte* codes, float* scales);
// Decodes a row.
void decode(const Fp8Row& format, const std::byte* codes, float scale, std::span<float> out);
void decode(const Int8Row& format, const std::byte* codes, float scale, std::span<float> out);

}  // namespace braid::formats
