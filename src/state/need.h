// What a part remembers, as bytes: per token, or per sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace braid {

// One array of state. Exactly one of the two sizes is positive.
struct StateNeed {
  std::string name;                // "layers.3.keys", for people and for the layout hash
  int64_t bytes_per_token = 0;     // paged; rewinds by length
  int64_t bytes_per_sequence = 0;  // a slot, zero at the start; does not rewind: a snapshot restores it
  bool operator==(const StateNeed&) const = default;
};

// Index into a model's list of needs. A default handle names nothing.
struct MemoryId {
  int index = -1;
  explicit operator bool() const { return index >= 0; }
};

}  // namespace braid
