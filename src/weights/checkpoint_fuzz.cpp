// Feeds arbitrary bytes to the safetensors reader and touches everything that it says is there.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "weights/quantization.h"
#include "weights/safetensors.h"

namespace {

// Adds up all bytes, so that the sanitizer sees any that lie outside.
uint64_t touch(const braid::StoredTensor& tensor) {
  uint64_t sum = 0;
  for (const std::byte byte : tensor.bytes) sum += static_cast<uint64_t>(byte);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const braid::SafetensorsContents contents = braid::parse_safetensors(bytes, "input");
    uint64_t covered = 0;
    volatile uint64_t sum = 0;
    for (const braid::StoredTensor& tensor : contents.tensors) {
      sum = sum + touch(tensor);
      covered += tensor.bytes.size();
      CHECK(tensor.elements() * braid::size_of(tensor.dtype) == std::ssize(tensor.bytes), "{}", tensor.name);
      try {
        braid::recognise({.weight = &tensor, .scales = &contents.tensors.front()}, {});
      } catch (const braid::Error&) {
      }
    }
    CHECK(covered <= size, "{} of {}", covered, size);
  } catch (const braid::Error& error) {
    CHECK(error.message().find('\n') == std::string::npos, "{}", error.message());
  }
  return 0;
}
