// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "api/device.h"
#include "cuda/common/device.h"
#include "cuda/executor.h"

namespace braid {

std::unique_ptr<Executor> make_gpu_executor(const GpuOptions& options) {
  if (cuda::device_count() == 0) return nullptr;
  return make_cuda_executor({.fast = options.fast,
                             .cache = options.cache,
                             .host_memory = options.host_memory,
                             .deterministic = options.deterministic});
}

std::string describe_devices() {
  std::string out = cuda::device_count() == 0 ? "this build runs models on the CPU and CUDA; no CUDA device is here"
                                              : "this build runs models on the CPU and CUDA";
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceDescription device = cuda::describe_device(i);
    out += fmt::format("; sees {} (sm_{}{}, {:.0f} GB)", device.name, device.major, device.minor,
                       static_cast<double>(device.memory_bytes) / 1e9);
  }
  return out;
}

}  // namespace braid
