// E2M1 codes with a scale for 16 columns and one for a row: layout, encode, decode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace braid::formats {

// Codes are rows x columns / 2 bytes, groups rows x columns / 16 bytes of E4M3, a scale for each row.
struct Nvfp4Parts {
  std::byte* codes;
  std::byte* groups;
  float* scales;
};

// The value of the code in the lower four bits.
float e2m1_to_float(uint8_t code);

// Encoding (semantics LIN-25): one scale g = max |w| / (6 * 448) for the whole matrix; a group's is the E4M3 number
// nearest to its largest / 6 / g; codes are the nearest to w / (group * g), ties to even codes; a group whose scale is
// 0 holds zeros. `values` are the rows of one matrix, whose columns are a multiple of 16.
void encode(const Nvfp4& format, std::span<const float> values, int64_t columns, const Nvfp4Parts& parts);
// Decodes a row.
void decode(const Nvfp4& format, const std::byte* codes, const std::byte* groups, float scale, std::span<float> out);

}  // namespace braid::formats
