// A row's add and norm with the exact products of it that follow, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/linear.h"
#include "ops/residual.h"

namespace braid::cuda {

// Whether this norm is of one row, in a form that may be launched with products of its output.
bool may_join(const AddNorm& norm);
// Launches both; false, with nothing launched, where the products are not those of the norm's output or have another
// form. The norm may join.
bool launch_joined(Context& context, const AddNorm& norm, const Linear& products);

}  // namespace braid::cuda
