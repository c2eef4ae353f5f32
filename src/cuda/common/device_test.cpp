// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/device.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid::cuda {
namespace {

TEST(CudaDevice, UnknownDevicesAreUsageErrors) {
  for (int index : {-1, device_count()}) {
    try {
      describe_device(index);
      FAIL() << "described device " << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
    }
  }
}

TEST(CudaDevice, EveryDeviceIsDescribed) {
  const int count = device_count();
  if (count == 0) GTEST_SKIP() << "no CUDA device";
  for (int index = 0; index < count; ++index) {
    const DeviceDescription device = describe_device(index);
    EXPECT_EQ(device.index, index);
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_bytes, 0u);
    EXPECT_GE(device.major, 8);
    EXPECT_GT(device.multiprocessors, 0);
  }
}

}  // namespace
}  // namespace braid::cuda
