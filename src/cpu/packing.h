// What the CPU makes of a weight: where each row's codes and scales lie, found without a search.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/weight.h"

namespace braid::cpu {

enum class Coding : uint8_t { F32, BF16, F16, Fp8 };

// The segments stay where they are; this is only an index of them. But codes that no kernel reads (whole numbers, and
// pairs of E2M1 codes times their group's scale) are kept as the bf16 numbers that they are, exactly. Read by kernels
// of every instruction set, so it holds plain numbers.
struct Packed final : Packing {
  struct Segment {
    const uint8_t* codes = nullptr;
    const float* scales = nullptr;
    int64_t first = 0;  // row, counted over all matrices
    int64_t end = 0;
  };
  static constexpr int64_t kGranule = 16;

  explicit Packed(const Weight& weight);
  ~Packed() override;

  Coding coding = Coding::BF16;
  int32_t block_rows = 1, block_columns = 1;  // of scales; 1 row by all columns where there are none
  int64_t rows = 0, columns = 0, count = 0;
  int64_t row_bytes = 0;
  int64_t scale_columns = 0;
  int64_t bytes = 0;
  std::vector<Segment> segments;
  std::vector<uint32_t> segment_of;  // of row g * kGranule
  std::vector<uint16_t> numbers;

  // Fills `numbers`.
  void expand(const Weight& weight);

  // The segment that holds `row` of all rows.
  const Segment& find(int64_t row) const {
    const Segment* segment = segments.data() + segment_of.data()[row / kGranule];
    while (row >= segment->end) ++segment;
    return *segment;
  }
};

inline const Packed& packed(const Weight& weight) { return static_cast<const Packed&>(*weight.packing.get()); }

}  // namespace braid::cpu
