// Random models for relation tests: any parts, any fields, tiny sizes or the head sizes that fast kernels serve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/spec.h"
#include "weights/plan.h"

namespace braid::tests {

// The plan has no checkpoint: its weights are drawn by random_weights.
struct RandomModel {
  WeightPlan plan;
  ModelSpec spec;  // without state handles: claim_state gives them, by the executor's cache type
};

// The same seed gives the same model. With `real_heads`, attention heads of 64, 128 or 256 and delta net heads of 128 x
// 128 with one to three value heads a key head; otherwise anything small and odd.
RandomModel random_model(uint64_t seed, bool real_heads);

}  // namespace braid::tests
