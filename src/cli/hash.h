// A short hash of results, to tell whether two runs computed the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace braid::cli {

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001B3;
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace braid::cli
