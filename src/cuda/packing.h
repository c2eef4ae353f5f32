// A weight in the device's memory: all segments behind each other, codes row-major, then the scales.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "cuda/common/codes.h"
#include "ops/executor.h"

namespace braid::cuda {

// Scales are [ceil(rows / block_rows), columns of blocks rounded up to 4] per matrix; of Int8 and NVFP4
// [rows, 1]. Where a segment starts inside a
// block of rows, block_rows is the largest divisor for which none does, and rows of scales are repeated.
struct Packed final : Packing {
  ~Packed() override = default;
  Memory memory;
  Codes codes;
};

inline const Codes& codes_of(const Weight& weight) { return static_cast<const Packed&>(*weight.packing).codes; }

// Floats from one row of scales to the next on the device.
int64_t packed_scale_columns(const Weight& weight);
// Columns that share a scale on the device, and rows that share a row of scales.
int64_t packed_block_columns(const Weight& weight);
int64_t packed_block_rows(const Weight& weight);
// The scales as they lie on the device; empty for formats without scales.
std::vector<float> packed_scales(const Weight& weight, int64_t block_rows);

}  // namespace braid::cuda
