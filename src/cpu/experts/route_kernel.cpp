// Route: a few tokens per work item; the largest logit is looked for k times, kLanes logits at a time.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// The first index of the largest of `count` ranks, where NaN marks what is taken and a multiple of kLanes can be read.
int64_t best_of(const float* ranks, int64_t count) {
  Vec best = splat(-__builtin_inff());
  for (int64_t e = 0; e < count; e += kLanes) best = maximum(load(ranks + e), best);  // passes NaN over
  const float rank = largest(best);
  int64_t e = 0;
  while (!any(equal(load(ranks + e), splat(rank)))) e += kLanes;
  while (ranks[e] != rank) ++e;
  return e;
}

void route_row(const Route& op, int64_t t, float* ranks) {
  const int64_t experts = op.logits.width(), k = op.chosen.width();
  const float* logits = op.logits.row<const float>(t);
  int32_t* chosen = op.chosen.row<int32_t>(t);
  float* weights = op.weights.row<float>(t);
  for (int64_t e = 0; e < round_up(experts, kLanes); ++e) {
    // A logit that is NaN counts as -infinity.
    const bool number = e < experts && logits[e] == logits[e];
    ranks[e] = number ? logits[e] : e < experts ? -__builtin_inff() : __builtin_nanf("");
  }
  for (int64_t slot = 0; slot < k; ++slot) {
    const int64_t best = best_of(ranks, experts);
    chosen[slot] = static_cast<int32_t>(best);
    ranks[best] = __builtin_nanf("");
  }
  const float largest_logit = k > 0 ? logits[chosen[0]] : 0.0f;
  float total = 0;
  for (int64_t slot = 0; slot < k; ++slot) {
    weights[slot] = exponential(logits[chosen[slot]] - largest_logit);
    total += weights[slot];
  }
  if (!op.normalise) {
    Vec all = zero();
    for (int64_t e = 0; e < experts; e += kLanes) {
      store(ranks, exponential(load_part(logits + e, experts - e) - splat(largest_logit)));
      all = all + load_part(ranks, experts - e);
    }
    total = sum(all);
  }
  for (int64_t slot = 0; slot < k; ++slot) weights[slot] /= total;
}

}  // namespace

void route(const Route& op, const Share& share) {
  constexpr int64_t kTokens = 16;  // of a work item
  const int64_t tokens = op.logits.rows(), items = (tokens + kTokens - 1) / kTokens;
  const int64_t floats = round_up(op.logits.width(), kLanes) + kLanes;
  auto* ranks = reinterpret_cast<float*>(share.workspace(static_cast<size_t>(floats) * sizeof(float)));
  for (int64_t item = share.take(items); item >= 0; item = share.take(items))
    for (int64_t t = item * kTokens; t < tokens && t < (item + 1) * kTokens; ++t) route_row(op, t, ranks);
}

}  // namespace braid::cpu::BRAID_ISA
