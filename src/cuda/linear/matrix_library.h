// cuBLASLt, opened when first used, so that the program starts without it: products of bf16 matrices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace braid::cuda {

// Addresses and rows are multiples of 16 bytes.
// out[tokens, rows] = x[tokens, columns] * w[rows, columns]^T, sums in f32, one rounding into out (f32 or bf16).
struct MatrixProduct {
  void* out = nullptr;
  bool out_bf16 = false;
  const __nv_bfloat16* x = nullptr;
  const __nv_bfloat16* w = nullptr;
  int64_t tokens = 0, rows = 0, columns = 0;
  int64_t out_stride = 0, x_stride = 0;  // elements between rows
};

class MatrixLibrary {
 public:
  // Null, and a line in the log, where the library cannot be opened.
  static std::unique_ptr<MatrixLibrary> open(cudaStream_t stream);
  virtual ~MatrixLibrary() = default;
  virtual void multiply(const MatrixProduct& product) = 0;
};

}  // namespace braid::cuda
