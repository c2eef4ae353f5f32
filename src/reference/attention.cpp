// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

namespace {

// Where position `position` of sequence `sequence` lies in keys and values: element offset of its first head.
int64_t place(const PagedCache& cache, const Tensor& pages, int64_t sequence, int64_t position) {
  const int64_t page_size = pages.size(1);
  CHECK(position >= 0 && position / page_size < cache.table.width(), "position {}, table {}", position,
        cache.table.describe());
  const int64_t page = cache.table.row<int32_t>(sequence)[position / page_size];
  CHECK(page >= 0 && page < pages.rows(), "page {} of {}", page, pages.describe());
  return page * pages.stride(0) + position % page_size * pages.stride(1);
}

void normalise(std::vector<double>& head, const Tensor& weight, double epsilon) {
  if (!weight) return;
  const auto size = static_cast<int64_t>(head.size());
  const double factor = 1 / std::sqrt(dot(head.data(), head.data(), size) / static_cast<double>(size) + epsilon);
  for (int64_t i = 0; i < size; ++i) head[static_cast<size_t>(i)] *= factor * weight.as<float>()[i];
}

void rotate(std::vector<double>& head, const Rope& rope, int32_t position) {
  const size_t pairs = rope.frequencies ? static_cast<size_t>(rope.frequencies.elements()) : 0;
  for (size_t i = 0; i < pairs; ++i) {
    const float angle = static_cast<float>(position) * rope.frequencies.as<float>()[i];
    const double cosine = std::cos(static_cast<double>(angle)) * rope.scale;
    const double sine = std::sin(static_cast<double>(angle)) * rope.scale;
    const double x = head[i], y = head[i + pairs];
    head[i] = x * cosine - y * sine;
    head[i + pairs] = y * cosine + x * sine;
  }
}

// Softmax of `scores` in place; they are not empty.
void softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

}  // namespace

void compute(const PrepareHeads& op) {
  const int64_t size = op.q.width();
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    for (int64_t t = op.rows.starts.as<int32_t>()[s]; t < op.rows.starts.as<int32_t>()[s + 1]; ++t) {
      const int32_t position = op.rows.positions.as<int32_t>()[t];
      for (int64_t h = 0; h < op.q.size(1); ++h) {
        const int64_t at = t * op.q.stride(0) + h * op.q.stride(1);
        std::vector<double> head = load(op.q, at, size);
        normalise(head, op.q_norm, op.epsilon);
        rotate(head, op.rope, position);
        store(op.q, at, head);
      }
      const int64_t key = place(op.cache, op.cache.keys, s, position);
      const int64_t value = place(op.cache, op.cache.values, s, position);
      for (int64_t h = 0; h < op.k.size(1); ++h) {
        std::vector<double> head = load(op.k, t * op.k.stride(0) + h * op.k.stride(1), size);
        normalise(head, op.k_norm, op.epsilon);
        rotate(head, op.rope, position);
        store(op.cache.keys, key + h * op.cache.keys.stride(2), head);
        store(op.cache.values, value + h * op.cache.values.stride(2),
              load(op.v, t * op.v.stride(0) + h * op.v.stride(1), op.v.width()));
      }
    }
  }
}

void compute(const PagedAttention& op) {
  const int64_t size = op.q.width(), heads = op.q.size(1), groups = op.cache.keys.size(2);
  std::vector<double> key(static_cast<size_t>(size)), value(static_cast<size_t>(op.cache.values.width()));
  for (int64_t s = 0; s < op.rows.sequences; ++s) {
    for (int64_t t = op.rows.starts.as<int32_t>()[s]; t < op.rows.starts.as<int32_t>()[s + 1]; ++t) {
      const int64_t last = op.rows.positions.as<int32_t>()[t];
      const int64_t first = op.window > 0 ? std::max<int64_t>(0, last - op.window + 1) : 0;
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t group = h / (heads / groups);
        const std::vector<double> query = load(op.q, t * op.q.stride(0) + h * op.q.stride(1), size);
        std::vector<double> shares;
        for (int64_t j = first; j <= last; ++j) {
          load(op.cache.keys, place(op.cache, op.cache.keys, s, j) + group * op.cache.keys.stride(2), key);
          shares.push_back(op.scale * dot(query.data(), key.data(), size));
        }
        softmax(shares);
        std::vector<double> sum(value.size());
        for (int64_t j = first; j <= last; ++j) {
          load(op.cache.values, place(op.cache, op.cache.values, s, j) + group * op.cache.values.stride(2), value);
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += shares[static_cast<size_t>(j - first)] * value[i];
        }
        store(op.out, t * op.out.stride(0) + h * op.out.stride(1), sum);
      }
    }
  }
}

void compute(const GateBy& op) {
  for (int64_t t = 0; t < op.x.size(0); ++t) {
    for (int64_t h = 0; h < op.x.size(1); ++h) {
      const int64_t at = t * op.x.stride(0) + h * op.x.stride(1);
      std::vector<double> x = load(op.x, at, op.x.width());
      const std::vector<double> gate = load(op.gate, t * op.gate.stride(0) + h * op.gate.stride(1), op.gate.width());
      for (size_t i = 0; i < x.size(); ++i) x[i] *= sigmoid(gate[i]);
      store(op.x, at, x);
    }
  }
}

}  // namespace braid::reference
