// Tensors as doubles: element access by type, matrices of doubles, and products with coded weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace braid::reference {

// Consecutive elements of an f32 or bf16 tensor from element `offset` of its memory on.
void load(const Tensor& tensor, int64_t offset, std::span<double> out);
std::vector<double> load(const Tensor& tensor, int64_t offset, int64_t count);
void store(const Tensor& tensor, int64_t offset, std::span<const double> values);

// Row-major doubles.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
  Matrix(int64_t row_count, int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<size_t>(row_count * column_count)) {}
  double* row(int64_t index) { return values.data() + index * columns; }
  const double* row(int64_t index) const { return values.data() + index * columns; }
  std::span<double> span(int64_t index) { return {row(index), static_cast<size_t>(columns)}; }
  std::span<const double> span(int64_t index) const { return {row(index), static_cast<size_t>(columns)}; }
};

// The rows of a tensor [rows, columns], and back with one rounding each.
Matrix load_rows(const Tensor& tensor);
void store_rows(const Tensor& tensor, const Matrix& values);

// The order of the sum depends on n alone.
double dot(const double* a, const double* b, int64_t n);
// x * W^T for one matrix of `weight`; each weight row is decoded once.
Matrix multiply(const Matrix& x, const Weight& weight, int64_t matrix);

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }

}  // namespace braid::reference
