// A row's add and norm in one launch with what follows it, products of its output, and the add with what is added.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/linear.h"
#include "ops/op.h"
#include "ops/residual.h"

namespace braid::cuda {

// Whether a launch may take this norm with products of its output: one row that threads read eight numbers at a time.
bool may_join(const AddNorm& norm);
// Whether x is the output of this norm, which may join.
bool reads(const Tensor& x, const AddNorm& norm);
// Launches both; false, with nothing launched, where the products are not exact ones of the norm's output or have
// another form. The norm may join.
bool launch_joined(Context& context, const AddNorm& norm, const Linear& products);
// Launches the norm, exact products of its output (null: none) and the products `op`; false, with nothing launched,
// where the op is no product of the norm's output, or one without a kernel for that.
bool launch_normed(Context& context, const AddNorm& norm, const Linear* exact, const Op& op);

// Whether the row that this op makes may be one that a norm adds.
bool may_add(const Op& op);
// Launches the op, which may add, and adds its output to the norm's stream; false, with nothing launched, where the
// norm adds something else, or the op has no kernel for that.
bool launch_added(Context& context, const Op& op, const AddNorm& norm);

}  // namespace braid::cuda
