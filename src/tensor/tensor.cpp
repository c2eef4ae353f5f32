// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor.h"

#include <fmt/ranges.h>

#include <span>

#include "base/error.h"

namespace braid {

Tensor::Tensor(void* memory, DType type, std::initializer_list<int64_t> dims)
    : data(static_cast<std::byte*>(memory)), dtype(type), rank(static_cast<int>(dims.size())) {
  CHECK(dims.size() >= 1 && dims.size() <= kMaxRank);
  std::copy(dims.begin(), dims.end(), shape.begin());
  int64_t stride = 1;
  for (size_t dim = dims.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
}

int64_t Tensor::elements() const {
  int64_t count = rank == 0 ? 0 : 1;
  for (int dim = 0; dim < rank; ++dim) count *= size(dim);
  return count;
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (int dim = rank; dim-- > 0;) {
    if (size(dim) != 1 && stride(dim) != expected) return false;
    expected *= size(dim);
  }
  return true;
}

Tensor Tensor::slice_rows(int64_t first, int64_t count) const {
  CHECK(rank >= 1 && first >= 0 && count >= 0 && first + count <= shape[0], "{} rows {}+{}", describe(), first, count);
  Tensor out = *this;
  out.shape[0] = count;
  out.data = data + first * strides[0] * size_of(dtype);
  return out;
}

Tensor Tensor::slice_columns(int64_t first, int64_t count) const {
  CHECK(rank >= 1 && first >= 0 && count >= 0 && first + count <= width(), "{} columns {}+{}", describe(), first,
        count);
  Tensor out = *this;
  out.shape[static_cast<size_t>(rank - 1)] = count;
  out.data = data + first * size_of(dtype);
  return out;
}

Tensor Tensor::split_columns(int64_t parts) const {
  CHECK(rank >= 1 && rank < kMaxRank && width() % parts == 0, "{} into {}", describe(), parts);
  Tensor out = *this;
  const auto last = static_cast<size_t>(rank - 1);
  out.rank = rank + 1;
  out.shape[last] = parts;
  out.shape[last + 1] = width() / parts;
  out.strides[last] = width() / parts;
  out.strides[last + 1] = 1;
  return out;
}

Tensor Tensor::reshape(std::initializer_list<int64_t> dims) const {
  CHECK(contiguous(), "{}", describe());
  Tensor out(data, dtype, dims);
  CHECK(out.elements() == elements(), "{} as {}", describe(), out.describe());
  return out;
}

std::string Tensor::describe() const {
  if (!*this) return "none";
  return fmt::format("{}[{}]", name_of(dtype), fmt::join(std::span(shape.data(), static_cast<size_t>(rank)), ", "));
}

}  // namespace braid
