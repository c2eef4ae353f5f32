// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

void compute(const Linear& op) {
  const Matrix x = load_rows(op.x);
  for (const Linear::Target& target : op.targets) {
    if (target.weight == nullptr) break;
    store_rows(target.out, multiply(x, *target.weight, 0));
  }
}

void compute(const GatedLinear& op) {
  CHECK(op.activation == Activation::Silu);
  const Matrix both = multiply(load_rows(op.x), *op.gate_up, 0);
  const int64_t width = both.columns / 2;
  Matrix out(both.rows, width);
  for (int64_t t = 0; t < both.rows; ++t)
    for (int64_t n = 0; n < width; ++n) out.row(t)[n] = silu(both.row(t)[n]) * both.row(t)[width + n];
  store_rows(op.out, out);
}

}  // namespace braid::reference
