// Putting all vectors of a plan into one block of an executor's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ops/executor.h"
#include "tensor/tensor.h"
#include "weights/plan.h"

namespace braid {

// Uploads values(planned, index) for every planned vector, each starting at a multiple of 64 bytes. The block is added
// to `memory`; the tensors point into it.
std::vector<Tensor> upload_vectors(const WeightPlan& plan, Executor& executor,
                                   const std::function<std::vector<float>(const PlannedVector&, size_t)>& values,
                                   std::vector<Memory>& memory);

}  // namespace braid
