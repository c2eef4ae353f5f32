// SPDX-License-Identifier: Apache-2.0
#include "api/device.h"

#include <optional>

#include "base/error.h"
#include "cpu/executor.h"
#include "reference/executor.h"

namespace braid {
namespace {

std::optional<DType> cache_type(const DeviceOptions& options) {
  if (options.kv_dtype == "auto") return std::nullopt;
  if (options.kv_dtype == "f32") return DType::F32;
  if (options.kv_dtype == "bf16") return DType::BF16;
  fail(ErrorKind::Usage, "--kv-dtype '{}' is unknown; known are auto, f32, bf16", options.kv_dtype);
}

}  // namespace

std::unique_ptr<Executor> make_executor(const DeviceOptions& options) {
  const std::optional<DType> cache = cache_type(options);
  if (options.device == "auto" || options.device == "cuda") {
    if (auto gpu = make_gpu_executor({.fast = options.fast, .cache = cache, .deterministic = options.deterministic}))
      return gpu;
    if (options.device == "cuda") fail(ErrorKind::Usage, "--device cuda: {}", describe_devices());
  }
  if (options.device == "auto" || options.device == "cpu")
    return make_cpu_executor({.threads = options.threads, .fast = options.fast, .cache = cache});
  if (options.device == "reference") {
    if (cache && *cache != DType::F32) fail(ErrorKind::Usage, "--device reference keeps keys and values in f32");
    return make_reference_executor();
  }
  fail(ErrorKind::Usage, "--device '{}' is unknown; known are auto, cpu, cuda, reference", options.device);
}

}  // namespace braid
