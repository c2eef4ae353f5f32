// SPDX-License-Identifier: Apache-2.0
#include "cpu/packing.h"

#include "base/error.h"

namespace braid::cpu {
namespace {

Coding coding_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return Coding::F32;
    case DType::BF16:
      return Coding::BF16;
    case DType::F16:
      return Coding::F16;
    default:
      fail("weights of {} have no kernel on the CPU", name_of(dtype));
  }
}

}  // namespace

Packed::Packed(const Weight& weight)
    : rows(weight.rows),
      columns(weight.columns),
      count(weight.count),
      row_bytes(braid::row_bytes(weight.format, weight.columns)),
      bytes(weight.bytes()) {
  if (const auto* dense = std::get_if<Dense>(&weight.format)) {
    coding = coding_of(dense->dtype);
  } else if (const auto* block = std::get_if<Fp8Block>(&weight.format)) {
    coding = Coding::Fp8;
    block_rows = block->block_rows;
    block_columns = block->block_columns;
    scale_columns = (columns + block_columns - 1) / block_columns;
  } else {
    coding = std::holds_alternative<Fp8Row>(weight.format) ? Coding::Fp8 : Coding::BF16;
    block_columns = static_cast<int32_t>(columns);
    scale_columns = 1;
    if (coding == Coding::BF16) expand(weight);
  }
  const uint16_t* number = numbers.data();
  int64_t first = 0;
  for (const WeightSegment& segment : weight.segments) {
    if (segment.rows == 0) continue;
    const auto* codes =
        reinterpret_cast<const uint8_t*>(numbers.empty() ? segment.data : reinterpret_cast<const std::byte*>(number));
    number += numbers.empty() ? 0 : segment.rows * columns;
    while (static_cast<int64_t>(segment_of.size()) * kGranule < first + segment.rows)
      segment_of.push_back(static_cast<uint32_t>(segments.size()));
    segments.push_back({codes, segment.scales, first, first + segment.rows});
    first += segment.rows;
  }
  CHECK(first == count * rows, "segments hold {} rows of {}", first, count * rows);
}

Packed::~Packed() = default;

void Packed::expand(const Weight& weight) {
  row_bytes = columns * static_cast<int64_t>(sizeof(uint16_t));
  numbers.reserve(static_cast<size_t>(count * rows * columns));
  // Without the scale of its row a number has at most eight significant bits.
  const std::vector<float> ones(static_cast<size_t>(count * rows), 1.0f);
  std::vector<float> values(static_cast<size_t>(columns));
  for (const WeightSegment& segment : weight.segments) {
    Weight one{.format = weight.format, .rows = segment.rows, .columns = columns};
    one.segments = {segment};
    one.segments[0].scales = ones.data();
    for (int64_t row = 0; row < segment.rows; ++row) {
      decode_row(one, 0, row, values);
      for (const float value : values) numbers.push_back(float_to_bf16(value));
    }
  }
}

}  // namespace braid::cpu
