// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <cstddef>
#include <cstdint>

#include "base/error.h"

// Any bytes are parsed or refused with an Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    braid::parse_json({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const braid::Error&) {
  }
  return 0;
}
