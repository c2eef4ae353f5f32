// A view of numbers in some memory: address, element type, shape and strides. It owns nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tensor/dtype.h"

namespace braid {

// Up to four dimensions; strides count elements; the last stride is always 1. A default tensor is empty: ops read it as
// "this argument is absent". The address may belong to a device; only its executor may follow it.
struct Tensor {
  static constexpr int kMaxRank = 4;

  std::byte* data = nullptr;
  DType dtype = DType::F32;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<int64_t, kMaxRank> strides{};

  Tensor() = default;
  // A contiguous tensor over `memory`.
  Tensor(void* memory, DType type, std::initializer_list<int64_t> dims);

  explicit operator bool() const { return data != nullptr; }
  int64_t size(int dim) const { return shape[static_cast<size_t>(dim)]; }
  int64_t stride(int dim) const { return strides[static_cast<size_t>(dim)]; }
  int64_t rows() const { return shape[0]; }
  int64_t width() const { return shape[static_cast<size_t>(rank - 1)]; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * size_of(dtype); }
  bool contiguous() const;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  // Address of row `row` of the first dimension.
  template <typename T>
  T* row(int64_t row) const {
    return reinterpret_cast<T*>(data) + row * strides[0];
  }

  // Rows [first, first + count) of the first dimension.
  Tensor slice_rows(int64_t first, int64_t count) const;
  // Columns [first, first + count) of the last dimension.
  Tensor slice_columns(int64_t first, int64_t count) const;
  // The last dimension cut into [parts, width / parts]; strides follow. Needs rank < 4.
  Tensor split_columns(int64_t parts) const;
  // The same elements under another shape; this tensor must be contiguous.
  Tensor reshape(std::initializer_list<int64_t> dims) const;

  std::string describe() const;  // "f32[21, 64]"
};

}  // namespace braid
