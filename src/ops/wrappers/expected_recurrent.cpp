// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/expected_words.h"

namespace braid::expecting {

namespace {

constexpr double kStored = 0x1p-24;  // state is kept in f32 by every executor
constexpr int64_t kChunk = 64;
constexpr double kHalfStep = 0x1p-25;  // lost of an f16 near zero

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

// What the roundings of one row come to: so much for each unit of |u_l| of the rows of its chunk, and of |S| before it.
struct Roundings {
  struct Share {
    double solve, read, form;  // in u, in o, and in S where the chunk form sums it up
    double decay = 0;          // from that row, or the chunk's start, to this one
  };
  std::vector<Share> rows;
  Share start;
  double operand = 0;  // lost of each operand of a product where they are rounded
};

// One column of the state of a value head, S[:, j], and a bound on the 2-norm of its error.
//
// A step maps a column by e^lg (I - beta k k^T), which shrinks 2-norms (0 <= beta <= 2, |k| <= 1), so an error made
// earlier never grows; each step adds the errors of its own inputs and roundings. The chunk form
//   u_i = beta (v - e^G_i S_start^T k_i - sum_l<i e^(G_i - G_l) <k_l, k_i> u_l),  o_i and S likewise,
// is a substitution: its rounding is one of u's right-hand side, and enters the state through k as u itself does.
//
// With rounded operands u = T r for r_l = beta_l (v_l - e^G_l S_start^T k_l) and the inverse T of the substitution's
// matrix. An entry of T is a key through a product of the steps above, |T_il| <= 2 e^(G_i - G_l), so that the sum of
// 2 e^(G_i - G_l) |r_l| bounds u and takes its place, and what is lost of T or r is that share of it. T may be put
// together from rounded blocks, which loses a few times 2^-11 of it: `operand` is eight times that.
class Column {
 public:
  explicit Column(Numbers state) : state_(std::move(state)) {}

  void start_chunk() {
    error_ += forming_;
    start_ = length_of(state_), forming_ = 0;
    writes_.clear(), sides_.clear();
  }

  Bounded step(const Token& token, int64_t j, const Roundings& roundings, const Arithmetic& math) {
    const Bounded decay = math.exp(token.log_decay), v = token.v[at(j)];
    const double beta = token.beta.value, before = length_of(state_);
    double p = 0;
    for (size_t i = 0; i < state_.size(); ++i) p += token.k[i].value * state_[i].value;
    const double residual = v.value - decay.value * p, u = beta * residual;
    writes_.push_back(std::fabs(u));
    double lost = 0;  // of u, with rounded operands
    if (roundings.operand > 0) {
      const double read = roundings.start.decay * start_;
      sides_.push_back(beta * (std::fabs(v.value) + read));
      writes_.back() = 0;
      for (size_t l = 0; l < sides_.size(); ++l) writes_.back() += 2 * roundings.rows[l].decay * sides_[l];
      lost = roundings.operand * (2 * writes_.back() + beta * read) + kHalfStep * terms();
    }

    const double k_error = error_length_of(token.k);
    double local = decay.error * before + beta * k_error * before + k_error * std::fabs(u);
    local += token.beta.error * std::fabs(residual) + beta * v.error;
    local += lost;
    local +=
        4 * math.unit * (beta * std::fabs(v.value) + std::fabs(u)) + beta * total(roundings, &Roundings::Share::solve);
    double o = 0;
    for (size_t i = 0; i < state_.size(); ++i) {
      state_[i].value = decay.value * state_[i].value + token.k[i].value * u;
      o += token.q[i].value * state_[i].value;
    }
    const double after = length_of(state_);
    local += 4 * math.unit * (decay.value * before + std::fabs(u)) + kStored * after;
    error_ = decay.value * error_ + local + Arithmetic::kSmallest;
    forming_ = total(roundings, &Roundings::Share::form);
    for (size_t l = 0; l < sides_.size(); ++l) forming_ += roundings.operand * roundings.rows[l].decay * writes_[l];
    if (roundings.operand > 0) forming_ += kHalfStep * terms();
    const double read = total(roundings, &Roundings::Share::read) + error_length_of(token.q) * (after + error_) +
                        (roundings.operand > 0 ? kHalfStep * terms() : 0);
    return {o, length_of(token.q) * error_ + read + Arithmetic::kSmallest};
  }

  Bounded operator[](int64_t i) const { return {state_[at(i)].value, error_ + forming_}; }

 private:
  double total(const Roundings& roundings, double Roundings::Share::*which) const {
    double sum = roundings.start.*which * start_;
    for (size_t l = 0; l < writes_.size(); ++l) sum += roundings.rows[l].*which * writes_[l];
    return sum;
  }

  // Of the sums over keys and over the chunk's rows.
  double terms() const { return static_cast<double>(state_.size() + writes_.size()); }

  Numbers state_;
  double error_ = 0, forming_ = 0, start_ = 0;
  std::vector<double> writes_;  // |u_j| of the chunk's rows
  std::vector<double> sides_;   // their right-hand sides, where operands are rounded
};

// Columns of one value head, from and to a slot's state [Dk, Dv].
class Head {
 public:
  Head(const Arithmetic& math, const Numbers& state, int64_t values, double operand) : math_(math), operand_(operand) {
    for (int64_t j = 0; j < values; ++j) {
      Numbers column;
      for (size_t i = at(j); i < state.size(); i += at(values)) column.push_back(state[i]);
      columns_.emplace_back(std::move(column));
    }
    keys_ = std::ssize(state) / values;
  }

  // Chunks begin at absolute multiples of 64 and where the pass begins.
  Numbers step(const Token& token, int64_t position) {
    if (chunk_.empty() || position % kChunk == 0) {
      chunk_.clear();
      for (Column& column : columns_) column.start_chunk();
    }
    chunk_.push_back({token.k, (chunk_.empty() ? 0 : chunk_.back().decayed) + std::fabs(token.log_decay.value)});
    const Roundings roundings = roundings_of(token);
    Numbers o;
    for (int64_t j = 0; j < std::ssize(columns_); ++j) o.push_back(columns_[at(j)].step(token, j, roundings, math_));
    return o;
  }

  Numbers state() const {
    Numbers out;
    for (int64_t i = 0; i < keys_; ++i)
      for (const Column& column : columns_) out.push_back(column[i]);
    return out;
  }

 private:
  struct Row {
    std::span<const Bounded> k;
    double decayed;  // |G|: cumulated log decay since the chunk's start
  };

  // A dot product of Dk terms is off by Dk units of |k| |k|; a sum over the chunk's rows by as many units as it has
  // terms. e^(G_i - G_l) is off by the roundings of the cumulation between l and i, each at most a unit of |G_i|.
  Roundings roundings_of(const Token& token) const {
    constexpr double kFew = 2 * Arithmetic::kElementary;
    const double dots = static_cast<double>(keys_) + kFew, count = static_cast<double>(chunk_.size());
    const double decayed = chunk_.back().decayed, length = length_of(token.q);
    Roundings out;
    for (size_t l = 0; l < chunk_.size(); ++l) {
      const double scale = math_.unit * std::exp(chunk_[l].decayed - decayed);
      const double terms = kFew + count + static_cast<double>(chunk_.size() - 1 - l) * decayed;
      const bool earlier = l + 1 < chunk_.size();
      const double decay = std::exp(chunk_[l].decayed - decayed), seen = product(chunk_[l].k, token.q);
      out.rows.push_back({.solve = earlier ? scale * (dots + terms * product(chunk_[l].k, token.k)) : 0,
                          .read = scale * (dots * length + terms * seen) + 2 * operand_ * decay * seen,
                          .form = scale * terms,
                          .decay = decay});
    }
    const double scale = math_.unit * std::exp(-decayed), terms = kFew + count * (1 + decayed);
    out.start = {scale * (dots + terms), (scale * (dots + terms) + operand_ * std::exp(-decayed)) * length,
                 scale * terms, std::exp(-decayed)};
    out.operand = operand_;
    return out;
  }

  static double product(std::span<const Bounded> a, std::span<const Bounded> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i].value * b[i].value;
    return std::fabs(sum);
  }

  Arithmetic math_;
  double operand_;
  int64_t keys_ = 0;
  std::vector<Column> columns_;
  std::vector<Row> chunk_;
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

// The rows of a sequence as the value heads see them. `operand` is lost of each number that products take.
struct Pass {
  int64_t first, slot;
  std::vector<Numbers> y;
  double operand;
};

// One value head over the rows of a sequence; `out` receives [rows, value_heads * Dv].
Numbers run_head(const DeltaRule& op, const Pass& pass, Numbers& out, int64_t h, const Arithmetic& math) {
  const auto& [first, slot, y, operand] = pass;
  const size_t keys = at(op.key_size()), values = at(op.value_size()), width = at(op.value_heads) * values;
  const size_t q = at(h / (op.value_heads / op.key_heads)) * keys, k = q + at(op.key_heads) * keys;
  const size_t v = 2 * at(op.key_heads) * keys + at(h) * values;
  Tensor state = op.state.slice_rows(slot, 1);
  Head head(math, load(state.reshape({op.value_heads, op.key_size() * op.value_size()}).slice_rows(h, 1)),
            op.value_size(), operand);
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
                                 .log_decay = log_decay},
                                op.rows.positions.as<int32_t>()[row]);
    std::ranges::copy(finish(op, o, std::span(z).subspan(at(h) * values, values), math),
                      out.begin() + static_cast<int64_t>(t * width + at(h) * values));
  }
  return head.state();
}

// See the op: several rows, heads of 128.
bool rounds_operands(const DeltaRule& op, int64_t rows) {
  return rows > 1 && op.key_size() == 128 && op.value_size() == 128 && op.conv.width() == 4;
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
    Pass pass{.first = first, .slot = slot, .operand = rounds_operands(op, rows) ? precision.operand : 0};
    for (int64_t t = 0; t < rows; ++t) {
      pass.y.push_back(features(op, x, t, math));
      if (pass.operand == 0) continue;
      for (Bounded& element : pass.y.back()) element.error += pass.operand * std::fabs(element.value) + kHalfStep;
    }
    Numbers out(at(rows * op.value_heads * op.value_size())), state;
    for (int64_t h = 0; h < op.value_heads; ++h) {
      const Numbers head = run_head(op, pass, out, h, math);
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
