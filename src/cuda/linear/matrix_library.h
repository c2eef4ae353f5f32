// cuBLASLt, opened when first used, so that the program starts without it: products of bf16 or scaled E4M3 matrices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace braid::cuda {

// Addresses and rows are multiples of 16 bytes.
// out[tokens, rows] = x[tokens, columns] * w[rows, columns]^T, sums in f32, one rounding into out (f32 or bf16). x and
// w are bf16; with scales they are E4M3 codes, columns a multiple of 128, tokens of 4 and rows of 8.
struct MatrixProduct {
  void* out = nullptr;
  bool out_bf16 = false;
  const void* x = nullptr;
  const void* w = nullptr;
  int64_t tokens = 0, rows = 0, columns = 0;
  int64_t out_stride = 0, x_stride = 0;  // elements between rows
  const float* x_scales = nullptr;       // [columns / 128, tokens]
  const float* w_scales = nullptr;       // of 128 x 128 codes: [rows / 128, columns / 128 rounded up to 4]
};

class MatrixLibrary {
 public:
  // Null, and a line in the log, where the library cannot be opened.
  static std::unique_ptr<MatrixLibrary> open(cudaStream_t stream);
  virtual ~MatrixLibrary() = default;
  virtual void multiply(const MatrixProduct& product) = 0;
};

}  // namespace braid::cuda
