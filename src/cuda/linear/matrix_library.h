// cuBLASLt, opened when first used, so that the program starts without it: products of bf16, scaled E4M3 or int8
// matrices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

namespace braid::cuda {

// Addresses and rows are multiples of 16 bytes.
// out[tokens, rows] = x[tokens, columns] * w[rows, columns]^T, sums in f32, one rounding into out (f32 or bf16).
//   Plain   x and w are bf16
//   Blocks  E4M3 codes, columns a multiple of 128; x_scales [columns / 128, tokens], w_scales of 128 x 128 codes
//           [rows / 128, columns / 128 rounded up to 4]
//   Rows    E4M3 codes; x_scales [tokens], w_scales [rows]
//   Whole   int8 codes without scales; sums and out are int32
// With codes tokens are a multiple of 4, rows of 8.
enum class MatrixForm { Plain, Blocks, Rows, Whole };
struct MatrixProduct {
  MatrixForm form = MatrixForm::Plain;
  void* out = nullptr;
  bool out_bf16 = false;
  const void* x = nullptr;
  const void* w = nullptr;
  int64_t tokens = 0, rows = 0, columns = 0;
  int64_t out_stride = 0, x_stride = 0;  // elements between rows
  const float* x_scales = nullptr;
  const float* w_scales = nullptr;
};

class MatrixLibrary {
 public:
  // Null, and a line in the log, where the library cannot be opened.
  static std::unique_ptr<MatrixLibrary> open(cudaStream_t stream);
  virtual ~MatrixLibrary() = default;
  virtual void multiply(const MatrixProduct& product) = 0;
};

}  // namespace braid::cuda
