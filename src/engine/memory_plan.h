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
  std::optional<int64_t> bytes;  // for all state; absent: enough for `sequences` full contexts
};

// Slots beyond those of running sequences, where the prefix cache keeps what was used last.
inline constexpr int32_t kCacheSlots = 4;

// What the prefix cache may take where nobody says: the state of a few conversations, and no more than a quarter of the
// memory that is available. Memory follows use, so that a small model stays small.
int64_t default_cache_bytes(std::span<const StateNeed> needs);

// Bytes of the arrays that a pool of these limits allocates.
int64_t state_bytes(std::span<const StateNeed> needs, const StatePool::Limits& limits);

// Never more pages than all sequences can fill. Too few bytes for one sequence of the full context is a Resource error
// that shows the sum.
StatePool::Limits plan_state(std::span<const StateNeed> needs, const MemoryRequest& request);

}  // namespace braid
