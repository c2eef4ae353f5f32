// Step memory: a stack of bytes out of one block, so that the same calls give the same addresses every step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>

#include "tensor/tensor.h"

namespace braid {

// Not thread-safe. Over a null block it only measures: tensors get false addresses, and `peak` tells how many bytes the
// same calls need.
class Scratch {
 public:
  static constexpr size_t kAlignment = 256;

  Scratch() = default;
  Scratch(std::byte* block, size_t bytes) : block_(block), capacity_(bytes) {}

  // A contiguous tensor; its contents are undefined. Running out is a programmer error: the block was measured.
  Tensor allocate(DType type, std::initializer_list<int64_t> shape);
  // Takes everything below `mark`, as the calls did after which used() was `mark`.
  void claim(size_t mark);
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }
  // Gives back everything allocated since used() was `mark`. Returns the bytes given back, so that the caller may
  // poison them.
  Tensor release(size_t mark);

 private:
  std::byte* address(size_t offset) const;
  std::byte* block_ = nullptr;
  size_t capacity_ = 0, used_ = 0, peak_ = 0;
};

}  // namespace braid
