// A 64-bit hash to tell whether bytes are the same: FNV-1a. Not for tables, nor against an adversary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace braid {

// The same bytes in the same order give the same value, whatever the portions.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001B3;
  }
  uint64_t value() const { return value_; }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace braid
