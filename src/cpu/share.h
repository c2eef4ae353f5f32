// One team member's share of an op: who it is, which work it takes next, and its own memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid::cpu {

class Team;

// Member 0 and those members that are free in time call the same kernel, each with its own Share; the op ends when they
// have returned. Who takes part is not known in advance, so work is divided by `take`, never by member numbers.
struct Share {
  int member = 0;
  int members = 1;  // of the team: at most so many take part
  Team* team = nullptr;
  std::atomic<int64_t>* next = nullptr;  // zero when the op starts
  bool fast = false;

  // The next of `blocks` work items, or -1 when all are taken.
  int64_t take(int64_t blocks) const {
    const int64_t block = next->fetch_add(1, std::memory_order_relaxed);
    return block < blocks ? block : -1;
  }
  // Waits for all who take part (nobody joins any more), and starts `take` from zero again.
  void barrier() const;
  // This member's own memory of at least `bytes`, aligned to 64, valid until the kernel returns or asks again.
  std::byte* workspace(size_t bytes) const;
  // Memory that all members share, of at least `bytes`; every member asks for the same amount, once an op, before its
  // first barrier.
  std::byte* shared_workspace(size_t bytes) const;
};

}  // namespace braid::cpu
