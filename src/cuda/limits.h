// What this device can do at best, measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"

namespace braid::cuda {

// Copying (bytes read and written) over blocks far beyond the caches, and multiplying in bf16 with the matrix library
// (0 where it is absent).
Limits measure_limits(Context& context, size_t footprint);

}  // namespace braid::cuda
