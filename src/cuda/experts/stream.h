// Experts of few rows in two launches: gate and up of every slot and of the shared expert, then all of their down
// products, weighted and added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/moe.h"

namespace braid::cuda {

// Most rows of x for which slots that share an expert are too few to be worth sorting.
constexpr int64_t kStreamedTokens = 8;

bool experts_stream(const Context& context, const Experts& op);
void compute_streamed(Context& context, const Experts& op);

}  // namespace braid::cuda
