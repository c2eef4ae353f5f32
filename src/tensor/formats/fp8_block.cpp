// SPDX-License-Identifier: Apache-2.0
#include "tensor/formats/fp8_block.h"

#include <algorithm>
#include <cmath>

namespace braid::formats {

void encode(const Fp8Block& format, std::span<const float> values, int64_t columns, std::byte* codes, float* scales) {
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  for (int64_t row = 0; row < rows; row += format.block_rows) {
    for (int64_t column = 0; column < columns; column += format.block_columns) {
      const int64_t last_row = std::min(rows, row + format.block_rows);
      const int64_t last_column = std::min(columns, column + format.block_columns);
      float largest = 0;
      for (int64_t n = row; n < last_row; ++n)
        for (int64_t k = column; k < last_column; ++k)
          largest = std::max(largest, std::fabs(values[static_cast<size_t>(n * columns + k)]));
      const float scale = largest == 0 ? 1.0f : largest / 448.0f;
      *scales++ = scale;
      for (int64_t n = row; n < last_row; ++n)
        for (int64_t k = column; k < last_column; ++k)
          codes[n * columns + k] = std::byte{float_to_e4m3(values[static_cast<size_t>(n * columns + k)] / scale)};
    }
  }
}

void decode(const Fp8Block& format, const std::byte* codes, const float* scales, int64_t row, std::span<float> out) {
  const auto columns = static_cast<int64_t>(out.size());
  const int64_t grid = (columns + format.block_columns - 1) / format.block_columns;
  const float* row_scales = scales + row / format.block_rows * grid;
  for (int64_t k = 0; k < columns; ++k)
    out[static_cast<size_t>(k)] = e4m3_to_float(static_cast<uint8_t>(codes[k])) * row_scales[k / format.block_columns];
}

}  // namespace braid::formats
