// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/decoded.h"

#include "cuda/common/decode.h"
#include "cuda/common/halves.h"
#include "cuda/linear/tensor_core.h"

namespace braid::cuda {
namespace {

// Sixteen codes a thread: a group.
__global__ void decode_groups_kernel(__nv_bfloat16* out, Codes codes, int64_t first) {
  const int64_t row = first + blockIdx.x;
  const float of_row = codes.scales[row / codes.block_rows * codes.scale_columns] / kE2m1Unit;
  for (int64_t k = threadIdx.x * 16; k < codes.columns; k += blockDim.x * 16) {
    const uint2 in = *reinterpret_cast<const uint2*>(codes.data + (row * codes.columns + k) / 2);
    const float scale = of_row * e4m3_value(codes.groups[(row * codes.columns + k) / 16]);
    __nv_bfloat162 values[8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t pairs[4];  // of columns (0, 4), (1, 5), (2, 6), (3, 7)
      e2m1_halves(pairs, i == 0 ? in.x : in.y);
      float2 numbers[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) numbers[j] = __half22float2(*reinterpret_cast<const __half2*>(&pairs[j]));
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        values[4 * i + j] = __floats2bfloat162_rn(numbers[2 * j].x * scale, numbers[2 * j + 1].x * scale);
        values[4 * i + 2 + j] = __floats2bfloat162_rn(numbers[2 * j].y * scale, numbers[2 * j + 1].y * scale);
      }
    }
    auto* to = reinterpret_cast<uint4*>(out + blockIdx.x * codes.columns + k);
    to[0] = reinterpret_cast<const uint4*>(values)[0];
    to[1] = reinterpret_cast<const uint4*>(values)[1];
  }
}

// Sixteen codes a thread. Scales are of 128 columns.
__global__ void decode_kernel(__nv_bfloat16* out, Codes codes, int64_t first) {
  const int64_t row = first + blockIdx.x;
  const float* scales = codes.scales + row / codes.block_rows * codes.scale_columns;
  for (int64_t k = threadIdx.x * 16; k < codes.columns; k += blockDim.x * 16) {
    const uint4 in = *reinterpret_cast<const uint4*>(codes.data + row * codes.columns + k);
    const uint32_t words[4] = {in.x, in.y, in.z, in.w};
    const float scale = scales[k / 128];
    __nv_bfloat162 values[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t pairs[2];
      widen(words[i], pairs[0], pairs[1]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float low = __uint_as_float(pairs[j] << 16), high = __uint_as_float(pairs[j] & 0xFFFF0000u);
        values[2 * i + j] = __floats2bfloat162_rn(low * scale, high * scale);
      }
    }
    auto* to = reinterpret_cast<uint4*>(out + blockIdx.x * codes.columns + k);
    to[0] = reinterpret_cast<const uint4*>(values)[0];
    to[1] = reinterpret_cast<const uint4*>(values)[1];
  }
}

}  // namespace

void decode_rows(Context& context, __nv_bfloat16* out, const Codes& codes, int64_t first, int64_t rows) {
  auto* kernel = codes.coding == Coding::Nvfp4 ? decode_groups_kernel : decode_kernel;
  kernel<<<static_cast<unsigned>(rows), 128, 0, context.stream()>>>(out, codes, first);
}

}  // namespace braid::cuda
