// Tensors as kernels see them: plain structs that are passed by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "base/error.h"
#include "tensor/tensor.h"

namespace braid::cuda {

// An f32 or bf16 tensor; the last dimension is contiguous. Absent tensors have no data.
struct View {
  void* data = nullptr;
  bool bf16 = false;
  int64_t shape[4] = {1, 1, 1, 1};
  int64_t stride[4] = {0, 0, 0, 0};
};

inline View view(const Tensor& tensor) {
  View out;
  if (!tensor) return out;
  CHECK(tensor.dtype == DType::F32 || tensor.dtype == DType::BF16, "{}", tensor.describe());
  out.data = tensor.data;
  out.bf16 = tensor.dtype == DType::BF16;
  for (int dim = 0; dim < tensor.rank; ++dim) out.shape[dim] = tensor.size(dim), out.stride[dim] = tensor.stride(dim);
  return out;
}

__device__ inline float get(const View& view, int64_t at) {
  return view.bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(view.data)[at])
                   : static_cast<const float*>(view.data)[at];
}

__device__ inline void put(const View& view, int64_t at, float value) {
  if (view.bf16)
    static_cast<__nv_bfloat16*>(view.data)[at] = __float2bfloat16_rn(value);
  else
    static_cast<float*>(view.data)[at] = value;
}

}  // namespace braid::cuda
