// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "ops/wrappers/expected_words.h"

namespace braid::expecting {

namespace {

Tensor row_of(const Tensor& tensor, int64_t row) { return tensor.slice_rows(row, 1); }

void append(Numbers& all, const Numbers& more) { all.insert(all.end(), more.begin(), more.end()); }

}  // namespace

Pieces expect(const Copy& op, const Precision&) { return {converted_piece("out", op.out, load(op.x))}; }

Pieces expect(const Gather& op, const Precision&) {
  Numbers out;
  for (int64_t i = 0; i < op.index.elements(); ++i) append(out, load(row_of(op.x, op.index.as<int32_t>()[i])));
  return {converted_piece("out", op.out, out)};
}

Pieces expect(const Fill& op, const Precision&) {
  const Tensor bytes(op.out.data, DType::U8, {op.out.bytes()});
  return {exact_piece("out", bytes, Numbers(static_cast<size_t>(bytes.elements()), Bounded{double(op.byte), 0}))};
}

Pieces expect(const Embed& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers out;
  std::vector<float> row(static_cast<size_t>(op.table->columns));
  for (int64_t t = 0; t < op.ids.elements(); ++t) {
    decode_row(*op.table, 0, op.ids.as<int32_t>()[t], row);
    for (const float value : row) out.push_back(math.multiply({value, 0}, {op.scale, 0}));
  }
  return {piece("out", op.out, out)};
}

Pieces expect(const AddNorm& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers stream = load(op.stream), out;
  Pieces pieces;
  if (op.add) {
    const Numbers add = load(op.add);
    for (size_t i = 0; i < add.size(); ++i) stream[i] = math.add(stream[i], add[i]);
    pieces.push_back(piece("stream", op.stream, stream));
    // What is normalised is what the stream then holds.
    for (size_t i = 0; i < add.size(); ++i) stream[i].error = pieces[0].errors[i];
  }
  if (!op.out) return pieces;
  const auto width = static_cast<size_t>(op.stream.width());
  const Numbers weight = op.weight ? load(op.weight) : Numbers(width, {1, 0});
  for (size_t first = 0; first < stream.size(); first += width) {
    Numbers row(stream.begin() + first, stream.begin() + first + width);
    row = unit_rows(math, row, op.epsilon, true);
    for (size_t i = 0; i < width; ++i) row[i] = math.multiply(row[i], weight[i]);
    append(out, row);
  }
  pieces.push_back(piece("out", op.out, out));
  return pieces;
}

std::vector<float> decode(const Weight& weight, int64_t matrix) {
  std::vector<float> out(static_cast<size_t>(weight.rows * weight.columns));
  for (int64_t row = 0; row < weight.rows; ++row)
    decode_row(weight, matrix, row,
               std::span(out).subspan(static_cast<size_t>(row * weight.columns), static_cast<size_t>(weight.columns)));
  return out;
}

// How inputs of a product are rounded: relative to each, and as a share of the row's largest.
struct Rounding {
  double relative = 0, step = 0;
};

// E4M3 has four bits, and steps of 2^-9 below 2^-6 of a scale that is the largest divided by 448. Whole numbers are
// half a step of a 127th of the largest off, a little more since the scale is rounded; a second one counts in 254ths of
// that.
Rounding input_rounding(const Precision& precision, int64_t rows, const Weight& weight) {
  const bool coded = rows >= precision.coded_rows, codes = precision.coded_rows != INT64_MAX;
  const bool fp8 = weight.format == Format(Fp8Block{}) || weight.format == Format(Fp8Row{});
  if (coded && fp8) return {0x1p-4, 0x1p-18};
  if (codes && weight.format == Format(Int8Row{}))
    return {precision.operand, coded ? 1.001 / 254 : 1.001 / (254 * 254)};
  return {precision.operand, precision.step};
}

// Over sum |x| |w|: K roundings of products and sums, two of a coded weight (its scale, applied before or after the
// sum), and one of each operand; the step of coded inputs acts on the largest |x| times sum |w|.
Numbers product(const Numbers& x, const std::vector<float>& matrix, const Precision& precision,
                const Rounding& inputs) {
  const double relative = (static_cast<double>(x.size()) + 2) * precision.unit + inputs.relative + precision.operand +
                          inputs.relative * precision.operand;
  double largest = 0;
  for (const Bounded& element : x) largest = std::max(largest, std::fabs(element.value) + element.error);
  Numbers out;
  for (size_t first = 0; first < matrix.size(); first += x.size()) {
    double value = 0, magnitude = 0, carried = 0, weights = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      const double w = matrix[first + k], absolute = std::fabs(w);
      value += x[k].value * w;
      magnitude += std::fabs(x[k].value) * absolute;
      carried += x[k].error * absolute;
      weights += absolute;
    }
    const double error = carried + relative * (magnitude + carried) + inputs.step * largest * weights;
    out.push_back({value, error + Arithmetic::kSmallest});
  }
  return out;
}

Numbers gated(const Arithmetic& math, const Numbers& both) {
  Numbers out(both.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) out[i] = math.multiply(math.silu(both[i]), both[out.size() + i]);
  return out;
}

Pieces expect(const Linear& op, const Precision& rounded) {
  const Precision precision = op.exact ? Precision{.unit = rounded.unit} : rounded;  // exact ones are never coded
  Pieces pieces;
  for (const Linear::Target& target : op.targets) {
    if (target.weight == nullptr) break;
    const std::vector<float> matrix = decode(*target.weight, 0);
    const Rounding inputs = input_rounding(precision, op.x.rows(), *target.weight);
    Numbers out;
    for (int64_t t = 0; t < op.x.rows(); ++t) append(out, product(load(row_of(op.x, t)), matrix, precision, inputs));
    pieces.push_back(piece("out", target.out, out));
  }
  return pieces;
}

Pieces expect(const GatedLinear& op, const Precision& precision) {
  const std::vector<float> matrix = decode(*op.gate_up, 0);
  const Rounding inputs = input_rounding(precision, op.x.rows(), *op.gate_up);
  Numbers out;
  for (int64_t t = 0; t < op.x.rows(); ++t)
    append(out, gated({precision.unit}, product(load(row_of(op.x, t)), matrix, precision, inputs)));
  return {piece("out", op.out, out)};
}

Pieces expect(const Experts& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  std::map<int64_t, std::pair<std::vector<float>, std::vector<float>>> decoded;
  constexpr int64_t kShared = -1;
  const auto feed_forward = [&](const Numbers& x, int64_t expert) {
    const auto& [gate_up, down] = decoded.at(expert);
    const bool shared = expert == kShared;
    const Rounding first = input_rounding(precision, op.x.rows(), shared ? *op.shared_gate_up : *op.gate_up),
                   second = input_rounding(precision, op.x.rows(), shared ? *op.shared_down : *op.down);
    return product(gated(math, product(x, gate_up, precision, first)), down, precision, second);
  };
  if (op.shared_gate_up != nullptr) decoded[kShared] = {decode(*op.shared_gate_up, 0), decode(*op.shared_down, 0)};
  Numbers out;
  for (int64_t t = 0; t < op.x.rows(); ++t) {
    const Numbers x = load(row_of(op.x, t));
    Numbers row(x.size());
    const auto bring = [&](Bounded factor, const Numbers& part) {
      for (size_t i = 0; i < row.size(); ++i) row[i] = math.add(row[i], math.multiply(factor, part[i]));
    };
    for (int64_t slot = 0; slot < op.chosen.width(); ++slot) {
      const int64_t expert = op.chosen.row<int32_t>(t)[slot];
      if (!decoded.contains(expert)) decoded[expert] = {decode(*op.gate_up, expert), decode(*op.down, expert)};
      bring({op.weights.row<float>(t)[slot], 0}, feed_forward(x, expert));
    }
    if (op.shared_gate_up != nullptr)
      bring(op.shared_gate ? math.sigmoid({op.shared_gate.row<float>(t)[0], 0}) : Bounded{1, 0},
            feed_forward(x, kShared));
    append(out, row);
  }
  return {piece("out", op.out, out)};
}

}  // namespace braid::expecting
