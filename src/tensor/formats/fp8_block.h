// E4M3 with one f32 scale per block of rows and columns: layout, encode, decode.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/format.h"

namespace braid::formats {

// Codes are rows x columns bytes, row-major; scales are [ceil(rows / block_rows), ceil(columns / block_columns)],
// row-major. Encoding: scale = max |w| / 448 in the block (1 for a block of zeros), code = nearest E4M3 of w / scale
// (semantics LIN-12).
void encode(const Fp8Block& format, std::span<const float> values, int64_t columns, std::byte* codes, float* scales);
// Decodes row `row`, given the codes of that row and all scales.
void decode(const Fp8Block& format, const std::byte* codes, const float* scales, int64_t row, std::span<float> out);

}  // namespace braid::formats
