// A coded matrix, or a stack of equal ones (experts), as kernels see it: row segments with their codes and scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/format.h"

namespace braid {

// Consecutive rows that lie together: codes row-major without padding; scales laid out for these rows alone, the first
// scale block starting at this segment's first row. Fused projections and experts stored one by one need no copy.
struct WeightSegment {
  const std::byte* data = nullptr;
  const float* scales = nullptr;  // scale_count(format, rows, columns) values; null for formats without scales
  int64_t rows = 0;
  const std::byte* groups = nullptr;  // group_bytes(format, columns) a row; null for formats without them
};

// What an executor's `pack` made of a weight; only that executor knows more.
struct Packing {
  virtual ~Packing() = default;
};

// W[rows, columns] = outputs x inputs, `count` of them. Segments cover the count * rows rows in order and never cross
// the border between two matrices. The bytes belong to the weight table that holds the weight; `packing` to the weight.
struct Weight {
  Format format = Dense{};
  int64_t count = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<WeightSegment> segments;
  std::unique_ptr<Packing> packing;

  // Bytes as stored: codes and scales of every kind.
  int64_t bytes() const;
};

// Decodes row `row` of matrix `matrix` to floats, by the format's definition. Slow and right.
void decode_row(const Weight& weight, int64_t matrix, int64_t row, std::span<float> out);

// A weight with memory of its own.
struct OwnedWeight {
  Weight weight;
  std::vector<std::byte> codes;
  std::vector<float> scales;
  std::vector<std::byte> groups;
};

// Codes `values` [count * rows, columns] in `format` (rounding to nearest, ties to even).
OwnedWeight encode(const Format& format, std::span<const float> values, int64_t count, int64_t rows, int64_t columns);

}  // namespace braid
