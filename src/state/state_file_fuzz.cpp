// Fuzz target: files of kept state, whose checksum is put right so that what lies behind it is reached.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "state/state_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file(size);
  if (size > 0) std::memcpy(file.data(), data, size);
  if (size >= 8) {
    const uint64_t sum = braid::checksum(std::span(file).first(size - 8));
    std::memcpy(file.data() + size - 8, &sum, 8);
  }
  const braid::StateShape shape{
      .identity = 0x3130303030303030, .page_tokens = 16, .page_bytes = 64, .slot_bytes = 8, .vocabulary = 50};
  try {
    const braid::SavedState state = braid::decode_state(file, shape);
    if (braid::encode_state(state) != file) __builtin_trap();
  } catch (const braid::Error&) {
  }
  return 0;
}
