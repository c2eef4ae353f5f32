// SPDX-License-Identifier: Apache-2.0
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

void compute(const AddNorm& op) {
  const int64_t width = op.stream.width();
  const std::vector<double> weight =
      op.weight ? load(op.weight, 0, width) : std::vector<double>(static_cast<size_t>(width), 1.0);
  for (int64_t t = 0; t < op.stream.rows(); ++t) {
    std::vector<double> row = load(op.stream, t * op.stream.stride(0), width);
    if (op.add) {
      const std::vector<double> add = load(op.add, t * op.add.stride(0), width);
      for (size_t i = 0; i < row.size(); ++i) row[i] += add[i];
      store(op.stream, t * op.stream.stride(0), row);
      load(op.stream, t * op.stream.stride(0), row);  // what is normalised is what the stream now holds
    }
    if (!op.out) continue;
    const double mean = dot(row.data(), row.data(), width) / static_cast<double>(width);
    const double factor = 1 / std::sqrt(mean + op.epsilon);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= factor * weight[i];
    store(op.out, t * op.out.stride(0), row);
  }
}

}  // namespace braid::reference
