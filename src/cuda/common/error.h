// Turns a status of the CUDA runtime into an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "base/error.h"

namespace braid::cuda {

// A Resource error "<what>: <the runtime's text>" unless `status` is success.
inline void check(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) fail(ErrorKind::Resource, "CUDA: {}: {}", what, cudaGetErrorString(status));
}

}  // namespace braid::cuda
