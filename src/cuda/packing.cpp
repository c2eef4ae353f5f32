// SPDX-License-Identifier: Apache-2.0
#include "cuda/packing.h"

#include <numeric>

namespace braid::cuda {

namespace {

// Scales of rows are taken for scales of 1 x 128 codes, which kernels know.
constexpr int kRowBlockColumns = 128;

struct Blocks {
  int64_t rows = 1, columns = 0;                // codes that share a scale on the device
  int64_t stored_rows = 1, stored_columns = 0;  // scales of a row of blocks in a segment; 0 columns: one for all
};

Blocks blocks_of(const Format& format, int64_t columns) {
  if (std::holds_alternative<Fp8Row>(format)) return {.columns = kRowBlockColumns};
  const auto* block = std::get_if<Fp8Block>(&format);
  if (block == nullptr) return {.columns = columns};
  return {block->block_rows, block->block_columns, block->block_rows,
          (columns + block->block_columns - 1) / block->block_columns};
}

bool has_scales(const Format& format) { return !std::holds_alternative<Dense>(format); }

}  // namespace

int64_t packed_block_columns(const Weight& weight) {
  return has_scales(weight.format) ? blocks_of(weight.format, weight.columns).columns : 1;
}

int64_t packed_block_rows(const Weight& weight) {
  if (!has_scales(weight.format)) return 1;
  int64_t rows = blocks_of(weight.format, weight.columns).rows, first = 0;
  for (const WeightSegment& segment : weight.segments) {
    rows = std::gcd(rows, first % weight.rows);
    first += segment.rows;
  }
  return rows;
}

int64_t packed_scale_columns(const Weight& weight) {
  if (!has_scales(weight.format)) return 0;
  const int64_t columns = packed_block_columns(weight);
  if (columns == weight.columns && !std::holds_alternative<Fp8Block>(weight.format)) return 1;
  return ((weight.columns + columns - 1) / columns + 3) / 4 * 4;
}

std::vector<float> packed_scales(const Weight& weight, int64_t block_rows) {
  if (!has_scales(weight.format)) return {};
  const Blocks blocks = blocks_of(weight.format, weight.columns);
  const auto width = static_cast<size_t>(packed_scale_columns(weight));
  std::vector<float> out;
  for (const WeightSegment& segment : weight.segments)
    for (int64_t row = 0; row < segment.rows; row += block_rows) {
      const size_t begin = out.size();
      if (blocks.stored_columns == 0) {
        out.resize(begin + width, segment.scales[row]);
        continue;
      }
      const float* from = segment.scales + row / blocks.stored_rows * blocks.stored_columns;
      out.insert(out.end(), from, from + blocks.stored_columns);
      out.resize(begin + width);
    }
  return out;
}

}  // namespace braid::cuda
