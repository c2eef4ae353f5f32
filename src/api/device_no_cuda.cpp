// SPDX-License-Identifier: Apache-2.0
#include "api/device.h"

namespace braid {

std::unique_ptr<Executor> make_gpu_executor(const GpuOptions&) { return nullptr; }

std::string describe_devices() { return "this build runs models on the CPU; it was built without CUDA"; }

}  // namespace braid
