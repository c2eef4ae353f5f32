// Route: one token per work item; a scan for the largest logit k times, which is quick for the few dozen to few hundred
// experts that models have.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// NaN counts as -infinity.
BRAID_INLINE float rank_of(float logit) { return logit == logit ? logit : -__builtin_inff(); }

// Whether expert a with rank x comes before expert b with rank y.
BRAID_INLINE bool before(float x, int64_t a, float y, int64_t b) { return x > y || (x == y && a < b); }

// The best expert after `last`, which is -1 at the start.
int64_t next_best(const float* logits, int64_t experts, int64_t last) {
  int64_t best = -1;
  for (int64_t e = 0; e < experts; ++e) {
    const float rank = rank_of(logits[e]);
    if (last >= 0 && !before(rank_of(logits[last]), last, rank, e)) continue;
    if (best < 0 || before(rank, e, rank_of(logits[best]), best)) best = e;
  }
  return best;
}

void route_row(const Route& op, int64_t t) {
  const int64_t experts = op.logits.width(), k = op.chosen.width();
  const float* logits = op.logits.row<const float>(t);
  int32_t* chosen = op.chosen.row<int32_t>(t);
  float* weights = op.weights.row<float>(t);
  for (int64_t slot = 0, last = -1; slot < k; ++slot) {
    last = next_best(logits, experts, last);
    chosen[slot] = static_cast<int32_t>(last);
  }
  if (k == 0) return;
  const float largest = logits[chosen[0]];
  float total = 0;
  for (int64_t slot = 0; slot < k; ++slot) {
    weights[slot] = exponential(logits[chosen[slot]] - largest);
    total += weights[slot];
  }
  if (!op.normalise) {
    Vec all = zero();
    for (int64_t e = 0; e < experts; e += kLanes) {
      const Vec shares = exponential(load_part(logits + e, experts - e) - splat(largest));
      alignas(64) float kept[kLanes];
      store(kept, shares);
      all = all + load_part(kept, experts - e);
    }
    total = sum(all);
  }
  for (int64_t slot = 0; slot < k; ++slot) weights[slot] /= total;
}

}  // namespace

void route(const Route& op, const Share& share) {
  constexpr int64_t kTokens = 16;  // of a work item
  const int64_t tokens = op.logits.rows(), items = (tokens + kTokens - 1) / kTokens;
  for (int64_t item = share.take(items); item >= 0; item = share.take(items))
    for (int64_t t = item * kTokens; t < tokens && t < (item + 1) * kTokens; ++t) route_row(op, t);
}

}  // namespace braid::cpu::BRAID_ISA
