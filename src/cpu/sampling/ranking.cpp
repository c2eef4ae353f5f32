// SPDX-License-Identifier: Apache-2.0
#include "cpu/sampling/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/rng.h"

namespace braid::cpu {
namespace {

struct Candidate {
  int32_t token = 0;
  float logit = 0.0f;
  double weight = 0.0;  // e^((logit - largest) / temperature)
};

bool before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

double mass_of(std::span<const Candidate> candidates) {
  double mass = 0;
  for (const Candidate& candidate : candidates) mass += candidate.weight;
  return mass;
}

// Reorders `candidates` so that a prefix holds the largest ones, and returns the length of the shortest such prefix
// whose mass reaches `goal` (or exceeds it, when `beyond`); all of them when none does. Halves by selection: linear
// time.
size_t prefix_reaching(std::span<Candidate> candidates, double goal, bool beyond) {
  const auto reached = [&](double mass) { return beyond ? mass > goal : mass >= goal; };
  size_t begin = 0, end = candidates.size();
  double mass = 0;
  while (end - begin > 32) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(candidates.begin() + static_cast<std::ptrdiff_t>(begin),
                     candidates.begin() + static_cast<std::ptrdiff_t>(middle),
                     candidates.begin() + static_cast<std::ptrdiff_t>(end), before);
    const double upper = mass_of(candidates.subspan(begin, middle - begin));
    if (reached(mass + upper))
      end = middle;
    else
      begin = middle, mass += upper;
  }
  std::sort(candidates.begin() + static_cast<std::ptrdiff_t>(begin),
            candidates.begin() + static_cast<std::ptrdiff_t>(end), before);
  for (; begin < end; ++begin)
    if (reached(mass += candidates[begin].weight)) return begin + 1;
  return end;
}

// The candidates of a row in bands of falling logits, fetched as far as they are needed.
class Bands {
 public:
  // `depth`: of the first band, below the largest logit.
  Bands(const LogitRow& row, double temperature, double depth) : row_(row), temperature_(temperature), depth_(depth) {}

  std::vector<Candidate>& candidates() { return candidates_; }

  // Fetches and keeps the `count` largest (or all, if there are fewer), as if there were no others.
  void keep_largest(size_t count) {
    while (candidates_.size() < count && !complete()) fetch(next_border());
    if (candidates_.size() > count) {
      std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(count), candidates_.end(),
                       before);
      candidates_.resize(count);
    }
    to_ = kNothing;
    weigh(0);
  }
  // Adds everything above `above`.
  void add(float above) {
    const size_t first = candidates_.size();
    fetch(above);
    weigh(first);
  }
  // The length of the shortest prefix of the whole descending order with that mass; candidates() then begins with it.
  size_t prefix_reaching(double goal, bool beyond) {
    size_t begin = 0;
    double mass = 0;
    for (;;) {
      const std::span<Candidate> band = std::span(candidates_).subspan(begin);
      const double here = mass_of(band);
      // A goal of zero asks for one candidate all the same.
      const bool enough = !candidates_.empty() && (beyond ? mass + here > goal : mass + here >= goal);
      if (enough || complete())
        return begin + cpu::prefix_reaching(band, goal - mass, beyond);
      mass += here;
      begin = candidates_.size();
      add(next_border());
    }
  }

 private:
  static constexpr float kNothing = -std::numeric_limits<float>::infinity();

  bool complete() const { return to_ == kNothing; }
  // Each band reaches half as deep again as the one before it; the last one to the end.
  float next_border() {
    constexpr int kMostBands = 16;
    const double depth = depth_;
    depth_ *= 1.5;
    return ++bands_ < kMostBands ? static_cast<float>(row_.largest - depth) : kNothing;
  }
  // Adds everything above `above` without its weight.
  void fetch(float above) {
    if (!(above < to_)) return;
    const int64_t count = row_.collect(row_, above, to_, row_.tokens);
    for (int64_t i = 0; i < count; ++i) candidates_.push_back({row_.tokens[i], row_.logits[row_.tokens[i]], 0.0});
    to_ = above;
  }
  void weigh(size_t first) {
    for (Candidate& candidate : std::span(candidates_).subspan(first))
      candidate.weight = std::exp((static_cast<double>(candidate.logit) - row_.largest) / temperature_);
  }

  const LogitRow& row_;
  const double temperature_;
  double depth_;
  int bands_ = 0;
  float to_ = std::numeric_limits<float>::infinity();
  std::vector<Candidate> candidates_;
};

}  // namespace

int32_t draw(const LogitRow& row, const SampleRow& how) {
  const double temperature = how.temperature;
  const double uniform_draw = uniform(how.key, how.position, 0);
  const bool few = how.top_k > 0 && how.top_k < row.width;
  Bands bands(row, temperature, few ? 1.0 : 3.0 * temperature);
  std::vector<Candidate>& kept = bands.candidates();
  double total = 0;
  if (few) {
    bands.keep_largest(static_cast<size_t>(how.top_k));
    total = mass_of(kept);
  } else {
    total = row.total(row, temperature);
    if (how.top_p >= 1.0f && how.min_p <= 0.0f)
      return kept[bands.prefix_reaching(uniform_draw * total, true) - 1].token;
  }
  if (how.top_p < 1.0f) {
    kept.resize(bands.prefix_reaching(how.top_p * total, false));
  } else if (!few) {
    // A little deeper than the border, which the weights decide.
    const double depth = temperature * -std::log(static_cast<double>(how.min_p));
    bands.add(static_cast<float>(row.largest - depth - 1e-6 * (depth + std::abs(row.largest)) - 1e-30));
  }
  const double least = std::min<double>(how.min_p, 1.0);
  std::erase_if(kept, [least](const Candidate& candidate) { return candidate.weight < least; });
  return kept[prefix_reaching(kept, uniform_draw * mass_of(kept), true) - 1].token;
}

int64_t rank(const LogitRow& row, int64_t count, int32_t* tokens) {
  Bands bands(row, 1.0, 1.0);
  bands.keep_largest(static_cast<size_t>(count));
  std::vector<Candidate>& kept = bands.candidates();
  std::sort(kept.begin(), kept.end(), before);
  for (size_t i = 0; i < kept.size(); ++i) tokens[i] = kept[i].token;
  return static_cast<int64_t>(kept.size());
}

}  // namespace braid::cpu
