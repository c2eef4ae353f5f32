// SPDX-License-Identifier: Apache-2.0
#include "api/device.h"

namespace braid {

std::string describe_devices() { return "this build runs models on the CPU; it was built without CUDA"; }

}  // namespace braid
