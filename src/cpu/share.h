// One team member's share of an op: who it is, which work it takes next, and its own memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid::cpu {

class Team;

// Member 0 and those members that are free in time call the same kernel, each with its own Share; the op ends when they
// have returned. Who takes part is not known in advance, so work is divided by `take`, never by member numbers. A
// member may come when others have passed a barrier: it finds nothing to take before it, and passes it.
struct Share {
  int member = 0;
  int members = 1;  // of the team: at most so many take part
  Team* team = nullptr;
  bool fast = false;
  // Its low bits count the items taken since the op or the last barrier began; the rest is the team's.
  std::atomic<uint64_t>* state = nullptr;
  mutable int64_t held = -1;  // an item taken beforehand
  mutable int skip = 0;       // barriers that were passed before this member came

  static constexpr uint64_t kTaken = (uint64_t{1} << 28) - 1;

  // The next of `blocks` work items (fewer than 2^28), or -1 when all are taken.
  int64_t take(int64_t blocks) const {
    if (skip > 0) return -1;
    int64_t block = held;
    held = -1;
    if (block < 0) block = static_cast<int64_t>(state->fetch_add(1, std::memory_order_relaxed) & kTaken);
    return block < blocks ? block : -1;
  }
  // Waits for all who take part so far, and starts `take` from zero again. Before it, a member takes items until there
  // are none, and an op has at most seven.
  void barrier() const;
  // This member's own memory of at least `bytes`, aligned to 64, valid until the kernel returns or asks again.
  std::byte* workspace(size_t bytes) const;
  // Memory that all members share, of at least `bytes`; every member asks for the same amount, once an op, before its
  // first barrier.
  std::byte* shared_workspace(size_t bytes) const;
};

}  // namespace braid::cpu
