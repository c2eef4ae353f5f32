// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/expected_words.h"

namespace braid::expecting {

namespace {

// One head's vector as a tensor [size].
Tensor head_of(const Tensor& tensor, int64_t row, int64_t head) {
  Tensor out = tensor;
  out.data += (row * tensor.stride(0) + head * tensor.stride(1)) * size_of(tensor.dtype);
  out.rank = 1;
  out.shape = {tensor.size(2)};
  out.strides = {1};
  return out;
}

Tensor head_at(const PagedCache& cache, const Tensor& pages, int64_t sequence, int64_t position, int64_t head) {
  const int64_t page = cache.table.row<int32_t>(sequence)[position / pages.size(1)];
  Tensor out = pages;
  out.data += page * pages.stride(0) * size_of(pages.dtype);
  out.rank = 3;
  out.shape = {pages.size(1), pages.size(2), pages.size(3)};
  out.strides = {pages.stride(1), pages.stride(2), 1};
  return head_of(out, position % pages.size(1), head);
}

// rope(rms(x) * weight). The angle is the same f32 product everywhere; cos and sin are held to the elementary bound.
Numbers prepare(const PrepareHeads& op, Numbers x, const Tensor& weight, int32_t position, const Arithmetic& math) {
  if (weight) {
    x = unit_rows(math, x, op.epsilon, true);
    const Numbers factors = load(weight);
    for (size_t i = 0; i < x.size(); ++i) x[i] = math.multiply(x[i], factors[i]);
  }
  const auto pairs = static_cast<size_t>(op.rope.frequencies.elements());
  for (size_t i = 0; i < pairs; ++i) {
    const float angle = static_cast<float>(position) * op.rope.frequencies.as<float>()[i];
    const Bounded scale{op.rope.scale, 0};
    const double slack = Arithmetic::kElementary * math.unit;  // absolute: a zero of cos is as hard as its peak
    const Bounded cosine = math.multiply({std::cos(double{angle}), slack}, scale);
    const Bounded sine = math.multiply({std::sin(double{angle}), slack}, scale);
    const Bounded a = x[i], b = x[i + pairs];
    x[i] = math.add(math.multiply(a, cosine), math.multiply({-b.value, b.error}, sine));
    x[i + pairs] = math.add(math.multiply(b, cosine), math.multiply(a, sine));
  }
  return x;
}

}  // namespace

Pieces expect(const PrepareHeads& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Pieces pieces;
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    for (int64_t t = op.rows.starts.as<int32_t>()[s]; t < op.rows.starts.as<int32_t>()[s + 1]; ++t) {
      const int32_t position = op.rows.positions.as<int32_t>()[t];
      for (int64_t h = 0; h < op.q.size(1); ++h) {
        const Tensor head = head_of(op.q, t, h);
        pieces.push_back(piece("q", head, prepare(op, load(head), op.q_norm, position, math)));
      }
      for (int64_t h = 0; h < op.k.size(1); ++h) {
        pieces.push_back(piece("keys", head_at(op.cache, op.cache.keys, s, position, h),
                               prepare(op, load(head_of(op.k, t, h)), op.k_norm, position, math)));
        pieces.push_back(
            converted_piece("values", head_at(op.cache, op.cache.values, s, position, h), load(head_of(op.v, t, h))));
      }
    }
  }
  return pieces;
}

// With e the largest error of a score and n keys: a share p_j is off by at most 2 e + 3 |s_j - s_max| unit (the
// difference, and a scale in base two that is rounded twice), the elementary error of exp and n unit of the
// denominator, relative to itself; the sum over values adds n unit. Splitting the keys and merging the parts costs as
// many roundings again, with a rescaling by exp each. Tensor cores take rounded queries and shares, and may cut off
// what they add: the denominator sums shares as they were before, so that their rounding does not cancel.
Pieces expect(const PagedAttention& op, const Precision& precision) {
  const Arithmetic math{precision.unit}, products{(precision.attention > 0 ? 4 : 1) * precision.unit};
  const int64_t heads = op.q.size(1), group = heads / op.cache.keys.size(2);
  Numbers out;
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    for (int64_t t = op.rows.starts.as<int32_t>()[s]; t < op.rows.starts.as<int32_t>()[s + 1]; ++t) {
      const int64_t last = op.rows.positions.as<int32_t>()[t];
      const int64_t first = op.window > 0 ? std::max<int64_t>(0, last - op.window + 1) : 0;
      for (int64_t h = 0; h < heads; ++h) {
        Numbers query = load(head_of(op.q, t, h));
        for (Bounded& x : query) x.error = precision.attention * std::fabs(x.value);
        Numbers scores;
        for (int64_t j = first; j <= last; ++j)
          scores.push_back(math.multiply({op.scale, 0},
                                         products.dot(query, load(head_at(op.cache, op.cache.keys, s, j, h / group)))));
        double largest = -INFINITY, off = 0, total = 0;
        for (const Bounded& score : scores) largest = std::max(largest, score.value), off = std::max(off, score.error);
        for (const Bounded& score : scores) total += std::exp(score.value - largest);
        const double merges = 4 * (static_cast<double>(scores.size()) + 2 * Arithmetic::kElementary) * math.unit;
        Numbers sum(static_cast<size_t>(op.cache.values.width()));
        for (int64_t j = first; j <= last; ++j) {
          const double distance = scores[static_cast<size_t>(j - first)].value - largest;
          const double share = std::exp(distance) / total;
          const double rounded = 2 * off + 3 * std::fabs(distance) * math.unit + merges + precision.attention;
          const double relative = std::expm1(rounded);
          const Numbers value = load(head_at(op.cache, op.cache.values, s, j, h / group));
          for (size_t i = 0; i < sum.size(); ++i) {
            sum[i].value += share * value[i].value;
            sum[i].error += relative * share * std::fabs(value[i].value) + Arithmetic::kSmallest;
          }
        }
        out.insert(out.end(), sum.begin(), sum.end());
      }
    }
  }
  return {piece("out", op.out, out)};
}

Pieces expect(const GateBy& op, const Precision& precision) {
  const Arithmetic math{precision.unit};
  Numbers x = load(op.x);
  const Numbers gate = load(op.gate);
  for (size_t i = 0; i < x.size(); ++i) x[i] = math.multiply(x[i], math.sigmoid(gate[i]));
  return {piece("x", op.x, x)};
}

}  // namespace braid::expecting
