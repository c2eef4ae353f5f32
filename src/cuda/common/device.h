// The NVIDIA devices of this machine: how many there are, and what each one is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace braid::cuda {

struct DeviceDescription {
  int index = 0;
  std::string name;
  std::size_t memory_bytes = 0;
  int major = 0;  // compute capability: 9 and 0 for sm_90
  int minor = 0;
  int multiprocessors = 0;
};

// 0 where there is no driver or no device; never an error. Any thread may ask.
int device_count();

// Describes device `index` of [0, device_count()); a Usage error for another one, Resource when the driver does not
// answer.
DeviceDescription describe_device(int index);

}  // namespace braid::cuda
