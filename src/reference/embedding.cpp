// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

void compute(const Embed& op) {
  std::vector<float> decoded(static_cast<size_t>(op.table->columns));
  std::vector<double> row(decoded.size());
  for (int64_t t = 0; t < op.out.rows(); ++t) {
    const int64_t id = op.ids.as<int32_t>()[t];
    CHECK(id >= 0 && id < op.table->rows, "token {} of {}", id, op.table->rows);
    decode_row(*op.table, 0, id, decoded);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(decoded[i]) * op.scale;
    store(op.out, t * op.out.stride(0), row);
  }
}

}  // namespace braid::reference
