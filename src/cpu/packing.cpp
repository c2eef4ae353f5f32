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
  } else {
    const auto& block = std::get<Fp8Block>(weight.format);
    coding = Coding::Fp8;
    block_rows = block.block_rows;
    block_columns = block.block_columns;
    scale_columns = (columns + block_columns - 1) / block_columns;
  }
  int64_t first = 0;
  for (const WeightSegment& segment : weight.segments) {
    if (segment.rows == 0) continue;
    const auto* codes = reinterpret_cast<const uint8_t*>(segment.data);
    while (static_cast<int64_t>(segment_of.size()) * kGranule < first + segment.rows)
      segment_of.push_back(static_cast<uint32_t>(segments.size()));
    segments.push_back({codes, segment.scales, first, first + segment.rows});
    first += segment.rows;
  }
  CHECK(first == count * rows, "segments hold {} rows of {}", first, count * rows);
}

Packed::~Packed() = default;

}  // namespace braid::cpu
