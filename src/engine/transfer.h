// Moving floats between the host and an executor's memory, whatever type they have there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "ops/executor.h"
#include "tensor/tensor.h"

namespace braid {

// `tensor` is contiguous and f32 or bf16; waits for everything submitted so far.
std::vector<float> download_floats(Executor& executor, Tensor tensor);
std::vector<int32_t> download_ints(Executor& executor, Tensor tensor);
// One rounding where the tensor is bf16.
void upload_floats(Executor& executor, Tensor tensor, std::span<const float> values);

}  // namespace braid
