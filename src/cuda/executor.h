// The CUDA executor: every op on one NVIDIA GPU, in the order of submission on one stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ops/executor.h"

namespace braid {

struct CudaOptions {
  int device = 0;
  // false: operands of products are not rounded (slow, for comparisons), and keys and values are F32.
  bool fast = true;
  // Of activations between ops. Products round them to bf16 in either case where `fast`; in F32 nothing else does,
  // which keeps the choice of experts and the recurrence near the reference.
  DType activations = DType::F32;
  // Type of keys and values, F32 or BF16; absent: BF16 when fast.
  std::optional<DType> cache;
  // Memory from `allocate` is pinned host memory that the device reads over the bus: slow, and for tests that look at
  // tensors from the host.
  bool host_memory = false;
  // The bits of a row are to depend on that row alone; rows_independent says whether they do.
  bool deterministic = false;
  // Waits after every op, so that a fault of the device is reported with the op that caused it.
  bool check_each_op = false;
};

// A Usage error when there is no such device, Resource when its driver does not work.
std::unique_ptr<Executor> make_cuda_executor(const CudaOptions& options);

}  // namespace braid
