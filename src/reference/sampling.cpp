// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "reference/ops.h"
#include "reference/values.h"

namespace braid::reference {

void compute(const Penalise& op) {
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    const float* penalty = op.penalties.row<float>(r);
    const double repetition = penalty[0], frequency = penalty[1], presence = penalty[2];
    for (int64_t e = op.starts.as<int32_t>()[r]; e < op.starts.as<int32_t>()[r + 1]; ++e) {
      TokenEntry entry;
      std::memcpy(&entry, op.entries.row<std::byte>(e), sizeof(entry));
      CHECK(entry.token >= 0 && entry.token < op.logits.width(), "token {}", entry.token);
      float& logit = op.logits.row<float>(r)[entry.token];
      double z = logit;
      if (entry.seen != 0) z = z > 0 ? z / repetition : z * repetition;
      z = z - frequency * entry.count - presence * (entry.count > 0 ? 1 : 0) + entry.bias;
      logit = static_cast<float>(z);
    }
  }
}

void compute(const MaskTokens& op) {
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    const uint32_t* mask = op.mask.row<uint32_t>(op.mask.rows() == 1 ? 0 : r);
    for (int64_t i = 0; i < op.logits.width(); ++i)
      if ((mask[i / 32] >> (i % 32) & 1) == 0) op.logits.row<float>(r)[i] = -INFINITY;
  }
}

namespace {

struct Candidate {
  int32_t token;
  double logit;
  double share;  // of the distribution it is drawn from, or of the whole softmax
};

// All tokens that are neither NaN nor -infinity, by descending logit, ties by lower id.
std::vector<Candidate> rank(const Tensor& logits, int64_t row) {
  std::vector<Candidate> ranked;
  for (int64_t i = 0; i < logits.width(); ++i)
    if (const float logit = logits.row<float>(row)[i]; logit > -INFINITY)
      ranked.push_back({.token = static_cast<int32_t>(i), .logit = logit, .share = 0});
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.logit > b.logit; });
  return ranked;
}

// log(sum of exp) over the candidates.
double log_sum(const std::vector<Candidate>& ranked) {
  double sum = 0;
  for (const Candidate& candidate : ranked) sum += std::exp(candidate.logit - ranked[0].logit);
  return ranked[0].logit + std::log(sum);
}

// Sets shares to softmax(logit / temperature).
void share_out(std::vector<Candidate>& ranked, double temperature) {
  double sum = 0;
  for (Candidate& c : ranked) sum += c.share = std::exp((c.logit - ranked[0].logit) / temperature);
  for (Candidate& c : ranked) c.share /= sum;
}

int32_t draw(std::vector<Candidate> ranked, const SampleRow& how) {
  if (how.temperature <= 0) return ranked[0].token;
  if (how.top_k > 0 && how.top_k < std::ssize(ranked)) ranked.resize(static_cast<size_t>(how.top_k));
  share_out(ranked, how.temperature);
  if (how.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    do sum += ranked[kept++].share;
    while (kept < ranked.size() && sum < how.top_p);
    ranked.resize(kept);
  }
  std::erase_if(ranked, [&, largest = ranked[0].share](const Candidate& c) { return c.share < how.min_p * largest; });
  const double total =
      std::accumulate(ranked.begin(), ranked.end(), 0.0, [](double sum, const Candidate& c) { return sum + c.share; });
  const double target = uniform(how.key, how.position, 0) * total;
  double sum = 0;
  for (const Candidate& candidate : ranked)
    if ((sum += candidate.share) > target) return candidate.token;
  return ranked.back().token;
}

}  // namespace

void compute(const Sample& op) {
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    SampleRow how;
    std::memcpy(&how, op.params.row<std::byte>(r), sizeof(how));
    const std::vector<Candidate> ranked = rank(op.logits, r);
    int32_t& token = op.tokens.as<int32_t>()[r];
    token = ranked.empty() ? -1 : draw(ranked, how);
    op.logprobs.as<float>()[r] =
        ranked.empty() ? -INFINITY : static_cast<float>(op.logits.row<float>(r)[token] - log_sum(ranked));
  }
}

void compute(const TopLogprobs& op) {
  const int64_t n = op.tokens.width();
  for (int64_t r = 0; r < op.logits.rows(); ++r) {
    const std::vector<Candidate> ranked = rank(op.logits, r);
    const double base = ranked.empty() ? 0 : log_sum(ranked);
    for (int64_t i = 0; i < n; ++i) {
      const bool there = i < std::ssize(ranked);
      op.tokens.row<int32_t>(r)[i] = there ? ranked[static_cast<size_t>(i)].token : -1;
      op.logprobs.row<float>(r)[i] =
          there ? static_cast<float>(ranked[static_cast<size_t>(i)].logit - base) : -INFINITY;
    }
  }
}

}  // namespace braid::reference
