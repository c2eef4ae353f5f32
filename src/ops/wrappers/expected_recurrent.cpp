// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/expected_words.h"

namespace braid::expecting {

namespace {

constexpr double kStored = 0x1p-24;  // state is kept in f32 by every executor
constexpr int64_t kChunk = 64;

double length_of(std::span<const Bounded> x) {
  double sum = 0;
  for (const Bounded& element : x) sum += element.value * element.value;
  return std::sqrt(sum);
}

double error_length_of(std::span<const Bounded> x) {
  double sum = 0;
  for (const Bounded& element : x) sum += element.error * element.error;
  return std::sqrt(sum);
}

// What one token brings to one value head.
struct Token {
  std::span<const Bounded> q, k, v;
  Bounded beta, log_decay;
};

size_t at(int64_t index) { return static_cast<size_t>(index); }

// One column of the state of a value head, S[:, j], and a bound on the 2-norm of its error.
//
// A step maps a column by e^lg (I - beta k k^T), which shrinks 2-norms (0 <= beta <= 2, |k| <= 1), so an error made
// earlier never grows; each step adds the errors of its own inputs and roundings. The chunk form solves a triangular
// system of up to 64 rows by substitution: its rounding is that of u's right-hand side, so many units of
// |beta v| + beta |S_start| + beta sum |u_l|, and enters the state through k as u does.
class Column {
 public:
  explicit Column(Numbers state) : state_(std::move(state)) {}

  // `units`: roundoff times the roundings of a sum of this step; `rows`: rows of the chunk so far.
  Bounded step(const Token& token, int64_t j, int64_t rows, double units, const Arithmetic& math) {
    const Bounded decay = math.exp(token.log_decay), v = token.v[at(j)];
    const double beta = token.beta.value, before = length_of(state_);
    double p = 0;
    for (size_t i = 0; i < state_.size(); ++i) p += token.k[i].value * state_[i].value;
    const double residual = v.value - decay.value * p, u = beta * residual;
    lengths_.push_back(before), writes_.push_back(std::fabs(u));
    double recent = 0, start = 0;
    for (size_t l = writes_.size() - at(rows); l < writes_.size(); ++l)
      recent += writes_[l], start = std::max(start, lengths_[l]);

    const double k_error = error_length_of(token.k);
    double local = decay.error * before + beta * k_error * before + k_error * std::fabs(u);
    local += token.beta.error * std::fabs(residual) + beta * v.error;
    local += units * (beta * (std::fabs(v.value) + start + recent) + recent + start);
    error_ = decay.value * error_ + local + Arithmetic::kSmallest;

    double o = 0;
    for (size_t i = 0; i < state_.size(); ++i) {
      state_[i].value = decay.value * state_[i].value + token.k[i].value * u;
      o += token.q[i].value * state_[i].value;
    }
    const double q_error = error_length_of(token.q) * (length_of(state_) + error_);
    const double rounding = units * length_of(token.q) * (start + recent);
    return {o, length_of(token.q) * error_ + q_error + rounding + Arithmetic::kSmallest};
  }

  Bounded operator[](int64_t i) const { return {state_[at(i)].value, error_}; }

 private:
  Numbers state_;
  double error_ = 0;
  std::vector<double> writes_, lengths_;  // |u_j| and |S[:, j]| before it, of each row so far
};

// Columns of one value head, from and to a slot's state [Dk, Dv].
class Head {
 public:
  Head(const Arithmetic& math, const Numbers& state, int64_t values, bool wide) : math_(math), wide_(wide) {
    for (int64_t j = 0; j < values; ++j) {
      Numbers column;
      for (size_t i = at(j); i < state.size(); i += at(values)) column.push_back(state[i]);
      columns_.emplace_back(std::move(column));
    }
    keys_ = std::ssize(state) / values;
  }

  // Sums of Dk terms and of one per row of the chunk, and the functions. Decays are exponentials of differences of
  // cumulated log decays G, off by up to rows * unit * |G|. The state is stored in f32 whatever the sums are taken in.
  Numbers step(const Token& token) {
    log_decays_.push_back(std::fabs(token.log_decay.value));
    const int64_t rows = wide_ ? std::min<int64_t>(std::ssize(log_decays_), kChunk) : 1;
    double cumulated = 0;
    for (size_t l = log_decays_.size() - at(rows); l < log_decays_.size(); ++l) cumulated += log_decays_[l];
    const double roundings =
        static_cast<double>(keys_ + rows) + 4 * Arithmetic::kElementary + static_cast<double>(rows) * cumulated;
    const double units = std::max(roundings * math_.unit, kStored);
    Numbers o;
    for (int64_t j = 0; j < std::ssize(columns_); ++j) o.push_back(columns_[at(j)].step(token, j, rows, units, math_));
    return o;
  }

  Numbers state() const {
    Numbers out;
    for (int64_t i = 0; i < keys_; ++i)
      for (const Column& column : columns_) out.push_back(column[i]);
    return out;
  }

 private:
  Arithmetic math_;
  bool wide_;
  int64_t keys_ = 0;
  std::vector<Column> columns_;
  std::vector<double> log_decays_;
};

// The inputs of a sequence with its left context in front: [taps - 1 + rows] rows of C.
Numbers inputs_of(const DeltaRule& op, int64_t first, int64_t rows, int64_t slot) {
  Numbers x = load(op.conv_state.slice_rows(slot, 1));
  const Numbers pass = load(op.qkv.slice_rows(first, rows));
  x.insert(x.end(), pass.begin(), pass.end());
  return x;
}

// Row t after convolution and activation, with q and k normalised per head.
Numbers features(const DeltaRule& op, const Numbers& x, int64_t t, const Arithmetic& math) {
  const int64_t channels = op.qkv.width(), taps = op.conv.width(), keys = op.key_size();
  Numbers y(at(channels)), window(at(taps));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < taps; ++j) window[at(j)] = x[at((t + j) * channels + c)];
    y[at(c)] = math.silu(math.dot(window, load(op.conv.slice_rows(c, 1))));
  }
  for (int64_t g = 0; g < 2 * op.key_heads; ++g) {
    const auto head = y.begin() + g * keys;
    Numbers unit = unit_rows(math, Numbers(head, head + keys), 1e-6, false);
    if (g < op.key_heads)
      for (Bounded& element : unit) element = math.multiply(element, math.inverse_root({static_cast<double>(keys), 0}));
    std::ranges::copy(unit, head);
  }
  return y;
}

Numbers finish(const DeltaRule& op, Numbers o, std::span<const Bounded> z, const Arithmetic& math) {
  o = unit_rows(math, o, op.epsilon, true);
  const Numbers norm = load(op.norm);
  for (size_t j = 0; j < o.size(); ++j) {
    const Bounded gate = op.gate == OutputGate::Silu ? math.silu(z[j]) : math.sigmoid(z[j]);
    o[j] = math.multiply(math.multiply(o[j], norm[j]), gate);
  }
  return o;
}

// One value head over the rows of a sequence; `y` are their features, `out` receives [rows, value_heads * Dv].
Numbers run_head(const DeltaRule& op, const std::vector<Numbers>& y, Numbers& out, const std::array<int64_t, 3>& place,
                 const Arithmetic& math) {
  const auto [first, slot, h] = place;
  const size_t keys = at(op.key_size()), values = at(op.value_size()), width = at(op.value_heads) * values;
  const size_t q = at(h / (op.value_heads / op.key_heads)) * keys, k = q + at(op.key_heads) * keys;
  const size_t v = 2 * at(op.key_heads) * keys + at(h) * values;
  Tensor state = op.state.slice_rows(slot, 1);
  Head head(math, load(state.reshape({op.value_heads, op.key_size() * op.value_size()}).slice_rows(h, 1)),
            op.value_size(), y.size() > 1);
  const Bounded rate = math.exp(load(op.a_log)[at(h)]);
  for (size_t t = 0; t < y.size(); ++t) {
    const int64_t row = first + static_cast<int64_t>(t);
    const Bounded b = load(op.b.slice_rows(row, 1))[at(h)], a = load(op.a.slice_rows(row, 1))[at(h)];
    Bounded log_decay = math.multiply(rate, math.softplus(math.add(a, load(op.dt_bias)[at(h)])));
    log_decay.value = -log_decay.value;
    const Numbers z = load(op.z.slice_rows(row, 1));
    const std::span<const Bounded> features(y[t]);
    const Numbers o = head.step({.q = features.subspan(q, keys),
                                 .k = features.subspan(k, keys),
                                 .v = features.subspan(v, values),
                                 .beta = math.multiply(math.sigmoid(b), {op.beta_scale, 0}),
                                 .log_decay = log_decay});
    std::ranges::copy(finish(op, o, std::span(z).subspan(at(h) * values, values), math),
                      out.begin() + static_cast<int64_t>(t * width + at(h) * values));
  }
  return head.state();
}

}  // namespace

Pieces expect(const DeltaRule& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Pieces pieces;
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    const int64_t first = op.rows.starts.as<int32_t>()[s], rows = op.rows.starts.as<int32_t>()[s + 1] - first;
    const int64_t slot = op.rows.slots.as<int32_t>()[s];
    if (rows == 0) continue;
    const Numbers x = inputs_of(op, first, rows, slot);
    std::vector<Numbers> y;
    for (int64_t t = 0; t < rows; ++t) y.push_back(features(op, x, t, math));
    Numbers out(at(rows * op.value_heads * op.value_size())), state;
    for (int64_t h = 0; h < op.value_heads; ++h) {
      const Numbers head = run_head(op, y, out, {first, slot, h}, math);
      state.insert(state.end(), head.begin(), head.end());
    }
    const int64_t left = (op.conv.width() - 1) * op.qkv.width();
    pieces.push_back(piece("out", op.out.slice_rows(first, rows), out));
    pieces.push_back(exact_piece("conv_state", op.conv_state.slice_rows(slot, 1), Numbers(x.end() - left, x.end())));
    pieces.push_back(piece("state", op.state.slice_rows(slot, 1), state));
  }
  return pieces;
}

}  // namespace braid::expecting
