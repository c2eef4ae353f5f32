// Choosing what runs a model: the CPU, an NVIDIA GPU, or the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ops/executor.h"

namespace braid {

struct DeviceOptions {
  std::string device = "auto";    // auto, cpu, cuda, reference
  int threads = 0;                // of the CPU executor; 0: one per core
  bool fast = true;               // false: f32 operands, keys and values on the CPU
  std::string kv_dtype = "auto";  // auto, f32, bf16
  // The bits of a row depend on that row alone, where the executor can do that (Executor::rows_independent says so).
  bool deterministic = false;
};

// `auto` takes a GPU where this build has an executor for it and the machine a device, else the CPU. A Usage error for
// an unknown word, or for a device that is not there.
std::unique_ptr<Executor> make_executor(const DeviceOptions& options);

// An executor on the first GPU, or null where this build or machine has none. `host_memory`: what it allocates can be
// read by the host, for tests.
struct GpuOptions {
  bool fast = true;            // false: f32 operands, keys and values
  std::optional<DType> cache;  // type of keys and values; absent: the executor's choice
  bool host_memory = false;
  bool deterministic = false;  // as in DeviceOptions
};
std::unique_ptr<Executor> make_gpu_executor(const GpuOptions& options);

// One line about the devices of this machine and build, for `braid --version`.
std::string describe_devices();

}  // namespace braid
