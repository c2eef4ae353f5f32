// Launches whose beginning overlaps the end of the launch before them, where the device can do that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "cuda/common/context.h"
#include "cuda/common/error.h"

namespace braid::cuda {

struct Extents {
  dim3 grid, block;
  size_t shared = 0;     // bytes of dynamic shared memory
  unsigned cluster = 1;  // blocks along x that run together
};

// Only for kernels that call `await_earlier` in every thread before they touch memory that another launch writes or
// that an earlier one still reads; what no launch writes (weights) may be asked for before it.
template <typename... Parameters, typename... Values>
void start(Context& context, void (*kernel)(Parameters...), const Extents& extents, const Values&... values) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (context.overlaps()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (extents.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {extents.cluster, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = extents.grid, config.blockDim = extents.block, config.dynamicSmemBytes = extents.shared;
  config.stream = context.stream();
  config.attrs = attributes, config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, Parameters(values)...), "launch");
}

// Lets the next launch begin as far as it can, then waits until every launch before this one has ended.
__device__ inline void await_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}

// The two halves of that, for kernels that ask for weights in between, and both the other way round: what the launch
// after this one finds then holds for every launch before this one.
__device__ inline void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void await() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void await_then_allow() { await(), allow_next(); }

}  // namespace braid::cuda
