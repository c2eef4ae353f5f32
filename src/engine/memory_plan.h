// How much state the pool holds: from the longest context and the number of sequences, or from a number of bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "state/need.h"
#include "state/pool.h"

namespace braid {

struct MemoryRequest {
  int64_t context = 0;           // tokens of one sequence
  int32_t sequences = 0;         // slots
  int32_t kept = 0;              // more slots, where the prefix cache keeps what was used last
  std::optional<int64_t> bytes;  // for all state; absent: enough for `sequences` full contexts
};

// What the prefix cache may take where nobody says: four conversations as long as the context, or of 32,768 tokens,
// with the states that are kept along them, and no more than a quarter of the `free` bytes. Memory follows use.
int64_t default_cache_bytes(std::span<const StateNeed> needs, int64_t context, int64_t free);

// How many slots are worth having for kept states, which lie in host memory otherwise: what an eighth of the bytes for
// all state holds, within bounds.
int32_t kept_slots(std::span<const StateNeed> needs, int64_t bytes);

// Bytes of the arrays that a pool of these limits allocates.
int64_t state_bytes(std::span<const StateNeed> needs, const StatePool::Limits& limits);

// Never more pages than all sequences can fill. Too few bytes for one sequence of the full context is a Resource error
// that shows the sum.
StatePool::Limits plan_state(std::span<const StateNeed> needs, const MemoryRequest& request);

}  // namespace braid
