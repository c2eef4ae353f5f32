// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/device.h"

#include <cuda_runtime.h>

#include "base/error.h"

namespace braid::cuda {

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());  // a missing driver must not surface in the next call
  return 0;
}

DeviceDescription describe_device(int index) {
  const int count = device_count();
  if (index < 0 || index >= count) fail(ErrorKind::Usage, "CUDA device {}: this machine has {}", index, count);
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) fail(ErrorKind::Resource, "CUDA device {}: {}", index, cudaGetErrorString(status));
  return {.index = index,
          .name = properties.name,
          .memory_bytes = properties.totalGlobalMem,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount};
}

}  // namespace braid::cuda
