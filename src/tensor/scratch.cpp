// SPDX-License-Identifier: Apache-2.0
#include "tensor/scratch.h"

#include <algorithm>

#include "base/error.h"

namespace braid {

std::byte* Scratch::address(size_t offset) const {
  // A measuring scratch hands out addresses from 256 on: not null (null means an absent argument), and never followed.
  return block_ == nullptr ? reinterpret_cast<std::byte*>(kAlignment + offset) : block_ + offset;
}

Tensor Scratch::allocate(DType type, std::initializer_list<int64_t> shape) {
  Tensor out(address(used_), type, shape);
  const size_t bytes = (static_cast<size_t>(out.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  CHECK(block_ == nullptr || used_ <= capacity_, "step memory of {} bytes is too small for {}", capacity_,
        out.describe());
  return out;
}

void Scratch::claim(size_t mark) {
  CHECK(mark >= used_ && (block_ == nullptr || mark <= capacity_), "mark={} used={}", mark, used_);
  used_ = mark;
  peak_ = std::max(peak_, used_);
}

Tensor Scratch::release(size_t mark) {
  CHECK(mark <= used_);
  Tensor freed(address(mark), DType::U8, {static_cast<int64_t>(used_ - mark)});
  used_ = mark;
  return freed;
}

}  // namespace braid
