// SPDX-License-Identifier: Apache-2.0
#include "reference/values.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace braid::reference {

void load(const Tensor& tensor, int64_t offset, std::span<double> out) {
  if (tensor.dtype == DType::F32) {
    std::copy_n(tensor.as<const float>() + offset, out.size(), out.data());
    return;
  }
  CHECK(tensor.dtype == DType::BF16, "{}", tensor.describe());
  std::transform(tensor.as<const uint16_t>() + offset, tensor.as<const uint16_t>() + offset + out.size(), out.data(),
                 bf16_to_float);
}

std::vector<double> load(const Tensor& tensor, int64_t offset, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  load(tensor, offset, out);
  return out;
}

void store(const Tensor& tensor, int64_t offset, std::span<const double> values) {
  if (tensor.dtype == DType::F32) {
    std::transform(values.begin(), values.end(), tensor.as<float>() + offset,
                   [](double value) { return static_cast<float>(value); });
    return;
  }
  CHECK(tensor.dtype == DType::BF16, "{}", tensor.describe());
  std::transform(values.begin(), values.end(), tensor.as<uint16_t>() + offset,
                 [](double value) { return float_to_bf16(static_cast<float>(value)); });
}

Matrix load_rows(const Tensor& tensor) {
  CHECK(tensor.rank == 2, "{}", tensor.describe());
  Matrix out(tensor.rows(), tensor.width());
  for (int64_t row = 0; row < out.rows; ++row) load(tensor, row * tensor.stride(0), out.span(row));
  return out;
}

void store_rows(const Tensor& tensor, const Matrix& values) {
  CHECK(tensor.rank == 2 && tensor.rows() == values.rows && tensor.width() == values.columns, "{} for [{}, {}]",
        tensor.describe(), values.rows, values.columns);
  for (int64_t row = 0; row < values.rows; ++row) store(tensor, row * tensor.stride(0), values.span(row));
}

namespace {

// Sixteen partial sums, taken together by vector instructions where the machine has them.
[[gnu::always_inline]] inline double dot_in_lanes(const double* a, const double* b, int64_t n) {
  using Lanes [[gnu::vector_size(32)]] = double;
  const auto add = [&](Lanes & sum, int64_t at) __attribute__((always_inline)) {
    Lanes left, right;
    std::memcpy(&left, a + at, sizeof(left)), std::memcpy(&right, b + at, sizeof(right));
    sum += left * right;
  };
  Lanes s0{}, s1{}, s2{}, s3{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) add(s0, i), add(s1, i + 4), add(s2, i + 8), add(s3, i + 12);
  const Lanes lanes = (s0 + s1) + (s2 + s3);
  double sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

double dot_plain(const double* a, const double* b, int64_t n) { return dot_in_lanes(a, b, n); }
[[gnu::target("avx2,fma")]] double dot_avx2(const double* a, const double* b, int64_t n) {
  return dot_in_lanes(a, b, n);
}

}  // namespace

double dot(const double* a, const double* b, int64_t n) {
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide ? dot_avx2(a, b, n) : dot_plain(a, b, n);
}

Matrix multiply(const Matrix& x, const Weight& weight, int64_t matrix) {
  CHECK(x.columns == weight.columns, "{} columns times [{}, {}]", x.columns, weight.rows, weight.columns);
  Matrix out(x.rows, weight.rows);
  std::vector<float> decoded(static_cast<size_t>(weight.columns));
  std::vector<double> row(decoded.size());
  for (int64_t n = 0; n < weight.rows; ++n) {
    decode_row(weight, matrix, n, decoded);
    std::copy(decoded.begin(), decoded.end(), row.begin());
    for (int64_t t = 0; t < x.rows; ++t) out.row(t)[n] = dot(x.row(t), row.data(), x.columns);
  }
  return out;
}

}  // namespace braid::reference
