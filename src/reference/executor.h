// The reference executor: what every op means, in plain loops and double precision.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ops/executor.h"

namespace braid {

// Runs each op before `submit` returns, in one thread, on host memory. Sums are taken in double and each output is
// rounded once; activations and caches are f32. Every weight format is supported and kept as it is.
std::unique_ptr<Executor> make_reference_executor();

}  // namespace braid
