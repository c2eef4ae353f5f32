// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

void compute(const Route& op) {
  const int64_t k = op.chosen.width();
  std::vector<int32_t> order(static_cast<size_t>(op.logits.width()));
  CHECK(k <= std::ssize(order), "{} of {}", k, op.logits.describe());
  for (int64_t t = 0; t < op.logits.rows(); ++t) {
    const float* logits = op.logits.row<float>(t);
    std::iota(order.begin(), order.end(), 0);
    // Stable: ties keep the lower index first. NaN counts as the least, so that the order is total.
    const auto rank = [&](int32_t i) { return std::isnan(logits[i]) ? -INFINITY : logits[i]; };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return rank(a) > rank(b); });
    const double largest = logits[order[0]];
    double all = 0, kept = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const double share = std::exp(logits[order[i]] - largest);
      all += share;
      if (std::cmp_less(i, k)) kept += share;
    }
    for (int64_t i = 0; i < k; ++i) {
      const int32_t expert = order[static_cast<size_t>(i)];
      op.chosen.row<int32_t>(t)[i] = expert;
      op.weights.row<float>(t)[i] =
          static_cast<float>(std::exp(logits[expert] - largest) / (op.normalise ? kept : all));
    }
  }
}

namespace {

// (silu(x G^T) * (x U^T)) D^T with matrix `expert` of each stack.
Matrix feed_forward(const Matrix& x, const Weight& gate_up, const Weight& down, int64_t expert) {
  const Matrix both = multiply(x, gate_up, expert);
  Matrix hidden(x.rows, both.columns / 2);
  for (int64_t t = 0; t < x.rows; ++t)
    for (int64_t i = 0; i < hidden.columns; ++i)
      hidden.row(t)[i] = silu(both.row(t)[i]) * both.row(t)[hidden.columns + i];
  return multiply(hidden, down, expert);
}

}  // namespace

void compute(const Experts& op) {
  CHECK(op.activation == Activation::Silu);
  const Matrix x = load_rows(op.x);
  const int64_t k = op.chosen.width();
  Matrix parts(x.rows * k, x.columns);  // what each slot of each row brings
  for (int64_t expert = 0; expert < op.gate_up->count; ++expert) {
    std::vector<int64_t> slots;
    for (int64_t slot = 0; slot < parts.rows; ++slot)
      if (op.chosen.row<int32_t>(slot / k)[slot % k] == expert) slots.push_back(slot);
    if (slots.empty()) continue;
    Matrix inputs(std::ssize(slots), x.columns);
    for (int64_t i = 0; i < inputs.rows; ++i)
      std::copy_n(x.row(slots[static_cast<size_t>(i)] / k), x.columns, inputs.row(i));
    const Matrix outputs = feed_forward(inputs, *op.gate_up, *op.down, expert);
    for (int64_t i = 0; i < inputs.rows; ++i)
      std::copy_n(outputs.row(i), x.columns, parts.row(slots[static_cast<size_t>(i)]));
  }
  Matrix out(x.rows, x.columns);
  for (int64_t slot = 0; slot < parts.rows; ++slot)
    for (int64_t i = 0; i < x.columns; ++i)
      out.row(slot / k)[i] += static_cast<double>(op.weights.row<float>(slot / k)[slot % k]) * parts.row(slot)[i];
  if (op.shared_gate_up != nullptr) {
    const Matrix shared = feed_forward(x, *op.shared_gate_up, *op.shared_down, 0);
    for (int64_t t = 0; t < x.rows; ++t) {
      const double factor = op.shared_gate ? sigmoid(op.shared_gate.row<float>(t)[0]) : 1.0;
      for (int64_t i = 0; i < x.columns; ++i) out.row(t)[i] += factor * shared.row(t)[i];
    }
  }
  store_rows(op.out, out);
}

}  // namespace braid::reference
