// Numbers with a bound on the error that an executor may make in them (running error analysis), and their arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace braid {

struct Bounded {
  double value = 0;
  double error = 0;  // |computed - value| is at most this
};

// Floating point with unit roundoff `unit`: fl(a op b) = (a op b)(1 + d), |d| <= unit, or up to kSmallest off where
// results below the normal range are flushed. Terms of second order in the unit are covered by the products of errors
// kept below. An executor's exp, log1p, sin, cos, sqrt and division are held to kElementary units.
struct Arithmetic {
  static constexpr double kSmallest = 0x1p-126;
  static constexpr double kElementary = 4;
  double unit = 0x1p-24;

  Bounded rounded(double value, double error, double roundings = 1) const {
    return {value, error + roundings * unit * (std::fabs(value) + error) + kSmallest};
  }
  Bounded add(Bounded a, Bounded b) const { return rounded(a.value + b.value, a.error + b.error); }
  Bounded multiply(Bounded a, Bounded b) const {
    const double carried = std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error;
    return rounded(a.value * b.value, carried);
  }
  // A sum of products of n terms, in any order: each product rounds once, each term takes part in at most n - 1 sums.
  Bounded dot(std::span<const Bounded> a, std::span<const Bounded> b) const {
    double value = 0, magnitude = 0, carried = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      value += a[i].value * b[i].value;
      magnitude += std::fabs(a[i].value * b[i].value);
      carried += std::fabs(a[i].value) * b[i].error + std::fabs(b[i].value) * a[i].error + a[i].error * b[i].error;
    }
    return {value, carried + static_cast<double>(a.size()) * unit * (magnitude + carried) + kSmallest};
  }
  Bounded exp(Bounded x) const {
    const double value = std::exp(x.value);
    return rounded(value, value * std::expm1(x.error), kElementary);
  }
  // |sigmoid(x + e) - sigmoid(x)| <= sigmoid(x) (exp|e| - 1); exp, sum and division round.
  Bounded sigmoid(Bounded x) const {
    const double value = 1 / (1 + std::exp(-x.value));
    return rounded(value, value * std::expm1(x.error), 2 * kElementary + 1);
  }
  Bounded silu(Bounded x) const { return multiply(x, sigmoid(x)); }
  // 1 / sqrt(x) for positive x well above its error.
  Bounded inverse_root(Bounded x) const {
    const double value = 1 / std::sqrt(x.value);
    return rounded(value, value * x.error / (2 * std::max(x.value - x.error, x.value / 2)), 2 * kElementary);
  }
  // x above 20, else log(1 + exp x), whose slope is sigmoid(x).
  Bounded softplus(Bounded x) const {
    if (x.value > 20) return rounded(x.value, x.error);
    const double value = std::log1p(std::exp(x.value));
    return rounded(value, value * std::expm1(x.error), 2 * kElementary + 1);
  }
};

// x / sqrt(mean(x^2) + epsilon), or with the sum instead of the mean.
inline std::vector<Bounded> unit_rows(const Arithmetic& math, std::vector<Bounded> x, double epsilon, bool mean) {
  Bounded square = math.dot(x, x);
  const double count = mean ? static_cast<double>(x.size()) : 1.0;
  square = math.rounded(square.value / count, square.error / count, Arithmetic::kElementary);
  const Bounded factor = math.inverse_root(math.add(square, {epsilon, 0}));
  for (Bounded& element : x) element = math.multiply(element, factor);
  return x;
}

}  // namespace braid
