// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

namespace {

// `count` values; equal types move bits, NaN payloads included.
void move(const Tensor& out, int64_t to, const Tensor& x, int64_t from, int64_t count) {
  if (out.dtype != x.dtype) return store(out, to, load(x, from, count));
  const int64_t bytes = size_of(x.dtype);
  if (count > 0) std::memcpy(out.data + to * bytes, x.data + from * bytes, static_cast<size_t>(count * bytes));
}

void copy(const Tensor& out, const Tensor& x) {
  CHECK(out.shape == x.shape && out.rank == x.rank, "{} from {}", out.describe(), x.describe());
  if (x.rank > 1) {
    for (int64_t row = 0; row < x.rows(); ++row) {
      Tensor to = out, from = x;
      for (Tensor* part : {&to, &from}) {
        part->data += row * part->stride(0) * size_of(part->dtype);
        part->rank -= 1;
        std::copy(part->shape.begin() + 1, part->shape.end(), part->shape.begin());
        std::copy(part->strides.begin() + 1, part->strides.end(), part->strides.begin());
        part->shape.back() = part->strides.back() = 0;
      }
      copy(to, from);
    }
    return;
  }
  move(out, 0, x, 0, x.elements());
}

}  // namespace

void compute(const Copy& op) { copy(op.out, op.x); }

void compute(const Gather& op) {
  for (int64_t i = 0; i < op.out.rows(); ++i) {
    const int64_t from = op.index.as<int32_t>()[i];
    CHECK(from >= 0 && from < op.x.rows(), "row {} of {}", from, op.x.describe());
    move(op.out, i * op.out.stride(0), op.x, from * op.x.stride(0), op.x.width());
  }
}

void compute(const Fill& op) {
  CHECK(op.out.contiguous(), "{}", op.out.describe());
  if (op.out.elements() > 0) std::memset(op.out.data, op.byte, static_cast<size_t>(op.out.bytes()));
}

}  // namespace braid::reference
