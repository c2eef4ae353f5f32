// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

namespace {

double softplus(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// The inputs of one sequence behind its left context, and the last taps - 1 of them back into `context`.
Matrix with_context(const Matrix& x, float* context, int64_t taps) {
  const int64_t left = taps - 1;
  Matrix all(left + x.rows, x.columns);
  std::copy_n(context, left * x.columns, all.values.data());
  std::copy(x.values.begin(), x.values.end(), all.row(left));
  std::transform(all.row(x.rows), all.row(x.rows) + left * x.columns, context,
                 [](double value) { return static_cast<float>(value); });
  return all;
}

// y[t, c] = silu(sum_j conv[c, j] * x[t + j, c]).
Matrix convolve(const Matrix& x, const Tensor& conv) {
  const int64_t taps = conv.width();
  Matrix y(x.rows - taps + 1, x.columns);
  for (int64_t t = 0; t < y.rows; ++t) {
    for (int64_t c = 0; c < y.columns; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < taps; ++j) sum += static_cast<double>(conv.row<float>(c)[j]) * x.row(t + j)[c];
      y.row(t)[c] = silu(sum);
    }
  }
  return y;
}

void scale_to_unit(double* head, int64_t size, double factor) {
  factor /= std::sqrt(dot(head, head, size) + 1e-6);
  for (int64_t i = 0; i < size; ++i) head[i] *= factor;
}

struct Step {
  const double *q, *k, *v;
  double decay, beta;
};

// One token of one value head: S <- decay S; u = beta (v - S^T k); S <- S + k u^T; o = S^T q. S is kept in f32.
void advance(float* state, const Step& step, int64_t keys, std::span<double> o) {
  const size_t values = o.size();
  std::vector<double> u(values);
  for (int64_t i = 0; i < keys; ++i)
    for (size_t j = 0; j < values; ++j) u[j] += step.k[i] * state[i * std::ssize(o) + static_cast<int64_t>(j)];
  for (size_t j = 0; j < values; ++j) u[j] = step.beta * (step.v[j] - step.decay * u[j]);
  std::fill(o.begin(), o.end(), 0.0);
  for (int64_t i = 0; i < keys; ++i) {
    float* row = state + i * std::ssize(o);
    for (size_t j = 0; j < values; ++j) {
      const double updated = step.decay * row[j] + step.k[i] * u[j];
      row[j] = static_cast<float>(updated);
      o[j] += step.q[i] * updated;
    }
  }
}

// rms(o) * norm * gate(z), in place.
void finish(const DeltaRule& op, std::span<double> o, std::span<const double> z) {
  const double mean = dot(o.data(), o.data(), std::ssize(o)) / static_cast<double>(o.size());
  const double factor = 1 / std::sqrt(mean + op.epsilon);
  for (size_t j = 0; j < o.size(); ++j)
    o[j] *= factor * op.norm.as<float>()[j] * (op.gate == OutputGate::Silu ? silu(z[j]) : sigmoid(z[j]));
}

// Rows [first, last) of one sequence.
void run_sequence(const DeltaRule& op, int64_t first, int64_t last, int64_t slot) {
  const int64_t keys = op.key_size(), values = op.value_size(), count = last - first;
  const int64_t k_at = op.key_heads * keys, v_at = 2 * k_at;
  const Matrix x =
      with_context(load_rows(op.qkv.slice_rows(first, count)), op.conv_state.row<float>(slot), op.conv.width());
  Matrix y = convolve(x, op.conv);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t g = 0; g < op.key_heads; ++g) {
      scale_to_unit(y.row(t) + g * keys, keys, 1 / std::sqrt(static_cast<double>(keys)));
      scale_to_unit(y.row(t) + k_at + g * keys, keys, 1);
    }
  }
  const Matrix b = load_rows(op.b.slice_rows(first, count)), a = load_rows(op.a.slice_rows(first, count));
  const Matrix z = load_rows(op.z.slice_rows(first, count));
  Matrix out(count, op.value_heads * values);
  for (int64_t h = 0; h < op.value_heads; ++h) {
    const int64_t g = h / (op.value_heads / op.key_heads);
    const double rate = -std::exp(static_cast<double>(op.a_log.as<float>()[h]));
    float* state = op.state.row<float>(slot) + h * op.state.stride(1);
    for (int64_t t = 0; t < count; ++t) {
      const Step step{.q = y.row(t) + g * keys,
                      .k = y.row(t) + k_at + g * keys,
                      .v = y.row(t) + v_at + h * values,
                      .decay = std::exp(rate * softplus(a.row(t)[h] + op.dt_bias.as<float>()[h])),
                      .beta = sigmoid(b.row(t)[h]) * op.beta_scale};
      const auto at = static_cast<size_t>(h * values), size = static_cast<size_t>(values);
      advance(state, step, keys, out.span(t).subspan(at, size));
      finish(op, out.span(t).subspan(at, size), z.span(t).subspan(at, size));
    }
  }
  store_rows(op.out.slice_rows(first, count), out);
}

}  // namespace

void compute(const DeltaRule& op) {
  CHECK(op.value_heads % op.key_heads == 0 && op.state.contiguous() && op.conv_state.contiguous());
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    const int64_t slot = op.rows.slots.as<int32_t>()[s];
    CHECK(slot >= 0 && slot < op.state.rows(), "slot {} of {}", slot, op.state.describe());
    run_sequence(op, op.rows.starts.as<int32_t>()[s], op.rows.starts.as<int32_t>()[s + 1], slot);
  }
}

}  // namespace braid::reference
