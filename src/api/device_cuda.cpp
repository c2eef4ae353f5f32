// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "api/device.h"
#include "cuda/common/device.h"

namespace braid {

std::string describe_devices() {
  std::string out = "this build runs models on the CPU";
  for (int i = 0; i < cuda::device_count(); ++i) {
    const cuda::DeviceDescription device = cuda::describe_device(i);
    out += fmt::format("; sees {} (sm_{}{}, {:.0f} GB), for which it has no executor yet", device.name, device.major,
                       device.minor, static_cast<double>(device.memory_bytes) / 1e9);
  }
  return out;
}

}  // namespace braid
