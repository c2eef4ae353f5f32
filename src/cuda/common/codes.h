// A packed weight as kernels see it: a plain struct that is passed by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace braid::cuda {

enum class Coding : int32_t { F32, BF16, F16, Fp8, Int8, Nvfp4 };

// `count` matrices [rows, columns], codes row-major, one after the other; of NVFP4 two a byte, the even column in the
// low half. Scales: per matrix [ceil(rows / block_rows), scale_columns], of which the first
// ceil(columns / block_columns) count; of FP8, rows of scales begin at 16 bytes.
struct Codes {
  const uint8_t* data = nullptr;
  const float* scales = nullptr;
  const uint8_t* groups = nullptr;  // of NVFP4: E4M3, a byte for 16 columns of a row
  Coding coding = Coding::BF16;
  int32_t block_rows = 1, block_columns = 1, scale_rows = 0, scale_columns = 0;
  bool row_scales = false;  // all scales of a row are the same
  int64_t count = 1, rows = 0, columns = 0;
};

}  // namespace braid::cuda
