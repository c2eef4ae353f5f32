// SPDX-License-Identifier: Apache-2.0
#include "tensor/weight.h"

#include "base/error.h"
#include "tensor/formats/dense.h"
#include "tensor/formats/fp8_block.h"
#include "tensor/formats/nvfp4.h"
#include "tensor/formats/row_scaled.h"

namespace braid {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::string name_of(const Format& format) {
  return std::visit(Overloaded{[](const Dense& dense) { return std::string(name_of(dense.dtype)); },
                               [](const Fp8Block&) { return std::string("fp8_block"); },
                               [](const Fp8Row&) { return std::string("fp8_row"); },
                               [](const Int8Row&) { return std::string("int8_row"); },
                               [](const Nvfp4&) { return std::string("nvfp4"); }},
                    format);
}

int64_t row_bytes(const Format& format, int64_t columns) {
  if (const auto* dense = std::get_if<Dense>(&format)) return columns * size_of(dense->dtype);
  return std::holds_alternative<Nvfp4>(format) ? columns / 2 : columns;
}

int64_t group_bytes(const Format& format, int64_t columns) {
  return std::holds_alternative<Nvfp4>(format) ? columns / Nvfp4::kGroup : 0;
}

int64_t column_alignment(const Format& format) { return std::holds_alternative<Nvfp4>(format) ? Nvfp4::kGroup : 1; }

int64_t scale_count(const Format& format, int64_t rows, int64_t columns) {
  if (std::holds_alternative<Dense>(format)) return 0;
  const auto* block = std::get_if<Fp8Block>(&format);
  if (block == nullptr) return rows;
  return (rows + block->block_rows - 1) / block->block_rows *
         ((columns + block->block_columns - 1) / block->block_columns);
}

int64_t row_alignment(const Format& format) {
  const auto* block = std::get_if<Fp8Block>(&format);
  return block == nullptr ? 1 : block->block_rows;
}

int64_t Weight::bytes() const {
  int64_t total = 0;
  for (const WeightSegment& segment : segments)
    total += segment.rows * (row_bytes(format, columns) + group_bytes(format, columns)) +
             4 * scale_count(format, segment.rows, columns);
  return total;
}

void decode_row(const Weight& weight, int64_t matrix, int64_t row, std::span<float> out) {
  CHECK(matrix >= 0 && matrix < weight.count && row >= 0 && row < weight.rows && std::ssize(out) == weight.columns);
  int64_t at = matrix * weight.rows + row;
  for (const WeightSegment& segment : weight.segments) {
    if (at < segment.rows) {
      const std::byte* codes = segment.data + at * row_bytes(weight.format, weight.columns);
      const std::byte* groups = segment.groups + at * group_bytes(weight.format, weight.columns);
      std::visit(Overloaded{[&](const Dense& dense) { formats::decode(dense, codes, out); },
                            [&](const Fp8Block& block) { formats::decode(block, codes, segment.scales, at, out); },
                            [&](const Fp8Row& fp8) { formats::decode(fp8, codes, segment.scales[at], out); },
                            [&](const Int8Row& int8) { formats::decode(int8, codes, segment.scales[at], out); },
                            [&](const Nvfp4& fp4) { formats::decode(fp4, codes, groups, segment.scales[at], out); }},
                 weight.format);
      return;
    }
    at -= segment.rows;
  }
  CHECK(false, "row {} of matrix {} lies in no segment", row, matrix);
}

OwnedWeight encode(const Format& format, std::span<const float> values, int64_t count, int64_t rows, int64_t columns) {
  CHECK(std::ssize(values) == count * rows * columns && columns % column_alignment(format) == 0);
  OwnedWeight owned;
  const int64_t matrix_bytes = rows * row_bytes(format, columns), matrix_scales = scale_count(format, rows, columns),
                matrix_groups = rows * group_bytes(format, columns);
  owned.codes.resize(static_cast<size_t>(count * matrix_bytes));
  owned.scales.resize(static_cast<size_t>(count * matrix_scales));
  owned.groups.resize(static_cast<size_t>(count * matrix_groups));
  owned.weight = {.format = format, .count = count, .rows = rows, .columns = columns};
  for (int64_t matrix = 0; matrix < count; ++matrix) {
    std::byte* codes = owned.codes.data() + matrix * matrix_bytes;
    float* scales = owned.scales.data() + matrix * matrix_scales;
    std::byte* groups = owned.groups.data() + matrix * matrix_groups;
    const auto part = values.subspan(static_cast<size_t>(matrix * rows * columns), static_cast<size_t>(rows * columns));
    std::visit(Overloaded{[&](const Dense& dense) { formats::encode(dense, part, codes); },
                          [&](const Fp8Block& block) { formats::encode(block, part, columns, codes, scales); },
                          [&](const Fp8Row& row) { formats::encode(row, part, columns, codes, scales); },
                          [&](const Int8Row& row) { formats::encode(row, part, columns, codes, scales); },
                          [&](const Nvfp4& fp4) {
                            formats::encode(fp4, part, columns, {codes, groups, scales});
                          }},
               format);
    owned.weight.segments.push_back({.data = codes,
                                     .scales = matrix_scales ? scales : nullptr,
                                     .rows = rows,
                                     .groups = matrix_groups ? groups : nullptr});
  }
  return owned;
}

}  // namespace braid
