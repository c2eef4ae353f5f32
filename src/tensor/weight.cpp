// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include "base/error.h"
#include "tensor/formats/dense.h"
#include "tensor/formats/fp8_block.h"

namespace braid {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string name_of(const Format& format) {
  return std::visit(Overloaded{[](const Dense& dense) { return std::string(name_of(dense.dtype)); },
                               [](const Fp8Block&) { return std::string("fp8_block"); }},
                    format);
}

int64_t row_bytes(const Format& format, int64_t columns) {
  return std::visit(Overloaded{[&](const Dense& dense) { return columns * size_of(dense.dtype); },
                               [&](const Fp8Block&) { return columns; }},
                    format);
}

int64_t scale_count(const Format& format, int64_t rows, int64_t columns) {
  return std::visit(Overloaded{[](const Dense&) { return int64_t{0}; },
                               [&](const Fp8Block& block) {
                                 return (rows + block.block_rows - 1) / block.block_rows *
                                        ((columns + block.block_columns - 1) / block.block_columns);
                               }},
                    format);
}

int64_t row_alignment(const Format& format) {
  return std::visit(Overloaded{[](const Dense&) { return int64_t{1}; },
                               [](const Fp8Block& block) { return int64_t{block.block_rows}; }},
                    format);
}

int64_t Weight::bytes() const {
  int64_t total = 0;
  for (const WeightSegment& segment : segments)
    total += segment.rows * row_bytes(format, columns) + 4 * scale_count(format, segment.rows, columns);
  return total;
}

void decode_row(const Weight& weight, int64_t matrix, int64_t row, std::span<float> out) {
  CHECK(matrix >= 0 && matrix < weight.count && row >= 0 && row < weight.rows && std::ssize(out) == weight.columns);
  int64_t at = matrix * weight.rows + row;
  for (const WeightSegment& segment : weight.segments) {
    if (at < segment.rows) {
      const std::byte* codes = segment.data + at * row_bytes(weight.format, weight.columns);
      std::visit(Overloaded{[&](const Dense& dense) { formats::decode(dense, codes, out); },
                            [&](const Fp8Block& block) { formats::decode(block, codes, segment.scales, at, out); }},
                 weight.format);
      return;
    }
    at -= segment.rows;
  }
  CHECK(false, "row {} of matrix {} lies in no segment", row, matrix);
}

OwnedWeight encode(const Format& format, std::span<const float> values, int64_t count, int64_t rows, int64_t columns) {
  CHECK(std::ssize(values) == count * rows * columns);
  OwnedWeight owned;
  const int64_t matrix_bytes = rows * row_bytes(format, columns), matrix_scales = scale_count(format, rows, columns);
  owned.codes.resize(static_cast<size_t>(count * matrix_bytes));
  owned.scales.resize(static_cast<size_t>(count * matrix_scales));
  owned.weight = {.format = format, .count = count, .rows = rows, .columns = columns};
  for (int64_t matrix = 0; matrix < count; ++matrix) {
    std::byte* codes = owned.codes.data() + matrix * matrix_bytes;
    float* scales = owned.scales.data() + matrix * matrix_scales;
    const auto part = values.subspan(static_cast<size_t>(matrix * rows * columns), static_cast<size_t>(rows * columns));
    std::visit(Overloaded{[&](const Dense& dense) { formats::encode(dense, part, codes); },
                          [&](const Fp8Block& block) { formats::encode(block, part, columns, codes, scales); }},
               format);
    owned.weight.segments.push_back({.data = codes, .scales = matrix_scales ? scales : nullptr, .rows = rows});
  }
  return owned;
}

}  // namespace braid
