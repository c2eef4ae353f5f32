// x *= sigmoid(gate). Work items are a few rows. Bound by memory traffic and the exponential.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"
#include "cpu/memory/pieces.h"

namespace braid::cpu::BRAID_ISA {
namespace {

constexpr int64_t kPiece = 1024;

template <typename X, typename Gate>
void gate_head(X* x, const Gate* gate, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    store_as(x + i, load_as(x + i, left) * logistic(load_as(gate + i, left)), left);
  }
}

template <typename X, typename Gate>
void gate_row(const GateBy& op, int64_t row) {
  const int64_t heads = op.x.size(1), size = op.x.size(2);
  X* x = op.x.row<X>(row);
  const Gate* gate = op.gate.row<Gate>(row);
  if (op.x.stride(1) == size && op.gate.stride(1) == size) return gate_head(x, gate, heads * size);
  for (int64_t head = 0; head < heads; ++head)
    gate_head(x + head * op.x.stride(1), gate + head * op.gate.stride(1), size);
}

template <typename X>
auto row_function(DType gate) {
  return gate == DType::BF16 ? gate_row<X, uint16_t> : gate_row<X, float>;
}

}  // namespace

void gate_by(const GateBy& op, const Share& share) {
  const auto run_row =
      op.x.dtype == DType::BF16 ? row_function<uint16_t>(op.gate.dtype) : row_function<float>(op.gate.dtype);
  for_rows(share, op.x.size(0), op.x.size(1) * op.x.size(2), kPiece, [&](int64_t row) { run_row(op, row); });
}

}  // namespace braid::cpu::BRAID_ISA
