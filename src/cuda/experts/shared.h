// The expert that every row takes, by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "cuda/common/view.h"
#include "ops/moe.h"

namespace braid::cuda {

// What it gives, f32 [tokens, width] in work memory, not yet multiplied by its gate.
View shared_rows(Context& context, const Experts& op);

}  // namespace braid::cuda
