// Experts of one row in two launches of the ring kernel (linear/ring.h): gate and up of every choice and of the shared
// expert, then all of their down products as one, weighted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/moe.h"

namespace braid::cuda {

// Launches both; false, with nothing launched, where the op is of more rows or has another form. The row is added to
// `stream`, which may be null, as well.
bool compute_one(Context& context, const Experts& op, float* stream = nullptr);

}  // namespace braid::cuda
