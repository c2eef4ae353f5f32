// Decoding single numbers of a weight, for kernels that take every format and shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda/common/codes.h"
#include "cuda/common/view.h"

namespace braid::cuda {

__device__ inline float e4m3_value(uint8_t code) {
  const __half_raw raw = __nv_cvt_fp8_to_halfraw(code, __NV_E4M3);
  return __half2float(__half(raw));
}

// The E2M1 number in the lower four bits.
__device__ inline float e2m1_value(uint32_t code) {
  const uint32_t magnitude = code & 7;
  const float value = magnitude < 2 ? 0.5f * static_cast<float>(magnitude)
                                    : __uint_as_float((126 + (magnitude >> 1)) << 23 | (magnitude & 1) << 22);
  return (code & 8) != 0 ? -value : value;
}

// Number [row, column] of matrix `matrix`.
__device__ inline float decode(const Codes& codes, int64_t matrix, int64_t row, int64_t column) {
  const int64_t at = (matrix * codes.rows + row) * codes.columns + column;
  float value = 0;
  switch (codes.coding) {
    case Coding::F32:
      return reinterpret_cast<const float*>(codes.data)[at];
    case Coding::BF16:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(codes.data)[at]);
    case Coding::F16:
      return __half2float(reinterpret_cast<const __half*>(codes.data)[at]);
    case Coding::Fp8:
      value = e4m3_value(codes.data[at]);
      break;
    case Coding::Int8:
      value = static_cast<float>(static_cast<int8_t>(codes.data[at]));
      break;
    case Coding::Nvfp4:
      value = e2m1_value(codes.data[at / 2] >> at % 2 * 4) * e4m3_value(codes.groups[at / 16]);
      break;
  }
  const int64_t scale_row = matrix * codes.scale_rows + row / codes.block_rows;
  return value * codes.scales[scale_row * codes.scale_columns + column / codes.block_columns];
}

}  // namespace braid::cuda
