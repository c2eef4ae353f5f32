// Experts of many rows: slots sorted by expert, both products on the tensor cores by groups of slots, a sum per row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/moe.h"

namespace braid::cuda {

bool experts_sort(const Context& context, const Experts& op);
void compute_sorted(Context& context, const Experts& op);

}  // namespace braid::cuda
