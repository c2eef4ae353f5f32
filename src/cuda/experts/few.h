// NVFP4 experts of few rows in one launch: gate and up of every slot and of the shared expert, then all of their down
// products, weighted and added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/moe.h"

namespace braid::cuda {

// Most rows of x: with more, slots share experts.
constexpr int64_t kFewRows = 8;
// Most rows that are taken so many at a time: with more it is quicker to decode all experts once.
constexpr int64_t kFewPassRows = 96;

bool experts_few(const Context& context, const Experts& op);
void compute_few(Context& context, const Experts& op);

}  // namespace braid::cuda
