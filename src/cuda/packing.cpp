// SPDX-License-Identifier: Apache-2.0
#include "cuda/packing.h"

#include <numeric>

namespace braid::cuda {

int64_t packed_block_rows(const Weight& weight) {
  const auto* format = std::get_if<Fp8Block>(&weight.format);
  if (format == nullptr) return 1;
  int64_t rows = format->block_rows, first = 0;
  for (const WeightSegment& segment : weight.segments) {
    rows = std::gcd(rows, first % weight.rows);
    first += segment.rows;
  }
  return rows;
}

int64_t packed_scale_columns(const Weight& weight) {
  const auto* format = std::get_if<Fp8Block>(&weight.format);
  if (format == nullptr) return 0;
  return ((weight.columns + format->block_columns - 1) / format->block_columns + 3) / 4 * 4;
}

std::vector<float> packed_scales(const Weight& weight, int64_t block_rows) {
  const auto* format = std::get_if<Fp8Block>(&weight.format);
  if (format == nullptr) return {};
  const int64_t columns = (weight.columns + format->block_columns - 1) / format->block_columns;
  std::vector<float> out;
  for (const WeightSegment& segment : weight.segments)
    for (int64_t row = 0; row < segment.rows; row += block_rows) {
      const float* from = segment.scales + row / format->block_rows * columns;
      out.insert(out.end(), from, from + columns);
      out.resize(out.size() + static_cast<size_t>(packed_scale_columns(weight) - columns));
    }
  return out;
}

}  // namespace braid::cuda
