// State that finished and running requests leave to later ones that begin with the same tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "state/pool.h"
#include "state/prefix_index.h"

namespace braid {

// A mark is everything that a sequence of some tokens remembers: shared pages, and the bytes of a slot, in a slot of
// the pool or in host memory. One number of bytes bounds all of it; the least recently used mark goes first, and always
// before something new takes its place. Where no part needs slots, any beginning of a mark's tokens can be resumed;
// else a mark is resumed whole. Not thread-safe: the engine's thread owns it.
class PrefixCache {
 public:
  PrefixCache(StatePool& pool, int64_t bytes) : pool_(pool), budget_(bytes) {}

  // What can be resumed of a prompt. `length` is a multiple of `multiple`.
  struct Hit {
    int64_t length = 0;
    MarkId mark = 0;     // 0: nothing
    int64_t common = 0;  // how far the prompt agrees with any mark
  };
  Hit find(std::span<const int32_t> tokens, int64_t multiple = 1) const;
  // How many pages a sequence with room for so many tokens takes, from the free ones and from those that only marks
  // hold.
  int64_t missing_pages(const Hit& hit, int64_t room) const;
  // Marks that `reclaim_pages` leaves alone until `unpin`.
  void pin(MarkId mark) {
    marks_.at(mark).pinned = true;
    pinned_.push_back(mark);
  }
  void unpin();

  // A sequence that goes on from there. The pool must be able to give a slot (free_slot).
  SequenceState resume(const Hit& hit);
  // Keeps a copy of what `live` holds of these tokens, all of which it holds. Where the budget has no room for them,
  // nothing happens.
  void publish(std::span<const int32_t> tokens, const SequenceState& live);
  // Takes `live` over, which holds these tokens, or releases it.
  void adopt(std::span<const int32_t> tokens, SequenceState& live);
  // Puts what another process kept in its place: `fill` writes the pages from token `first`, a multiple of the page
  // size, and the slot of a fresh state of these tokens, whose earlier pages come from a mark that begins with them.
  // False when there is no such mark, or no room. An error of `fill` leaves nothing behind.
  bool insert(std::span<const int32_t> tokens, int64_t first, const std::function<void(const SequenceState&)>& fill);

  // Drops marks until the pool has so many free pages, or nothing is left to drop.
  void reclaim_pages(int64_t pages);
  // Moves the slot of a mark to host memory where no slot is free. False: sequences hold all of them.
  bool free_slot();
  // How many slots `free_slot` can free.
  int32_t movable_slots() const { return in_slots_; }
  // Counts bytes of others (parked sequences) against the budget; false, with nothing changed, when they do not fit.
  bool reserve(int64_t bytes);
  void unreserve(int64_t bytes) { reserved_ -= bytes; }
  // Down to the budget, after sequences gave pages back.
  void trim() { make_room(0); }
  void clear();

  struct Stats {
    int64_t bytes = 0, budget = 0;  // held and allowed: pages that only marks hold, states, reserved bytes
    int64_t reserved = 0;
    int64_t marks = 0, published = 0, dropped = 0, moved = 0;  // moved: from a slot to host memory
  };
  Stats stats() const;
  // From the least recently used to the most recently used.
  std::vector<MarkId> marks() const { return {order_.begin(), order_.end()}; }
  bool has(MarkId mark) const { return marks_.contains(mark); }
  std::vector<int32_t> tokens_of(MarkId mark) const { return index_.tokens_of(mark); }
  const SequenceState& state_of(MarkId mark) const { return marks_.at(mark).state; }
  // The bytes of the mark's slot, wherever they are.
  std::vector<std::byte> slot_of(MarkId mark) const;
  // Called with each new mark.
  std::function<void(MarkId)> on_publish;

  // What it holds, for StatePool::check_integrity; checks its own counts.
  std::vector<const SequenceState*> check_integrity() const;

 private:
  struct Mark {
    SequenceState state;           // its slot, or -1
    std::vector<std::byte> bytes;  // of the slot, where the state has none
    std::list<MarkId>::iterator place;
    bool pinned = false;
  };
  int64_t bytes() const;
  int64_t slot_bytes() const { return static_cast<int64_t>(pool_.slot_bytes()); }
  int64_t page_bytes(int64_t tokens) const {
    return StatePool::pages_for(tokens) * static_cast<int64_t>(pool_.page_bytes());
  }
  bool make_room(int64_t bytes);
  bool drop_oldest();
  void drop(MarkId id);
  void touch(Mark& mark) { order_.splice(order_.end(), order_, mark.place); }
  void add(MarkId id, Mark mark);

  StatePool& pool_;
  int64_t budget_, reserved_ = 0;
  PrefixIndex index_;
  std::unordered_map<MarkId, Mark> marks_;
  std::list<MarkId> order_;  // the least recently used first
  int32_t in_slots_ = 0;     // marks whose state lies in a slot
  std::vector<MarkId> pinned_;
  MarkId last_ = 0;
  int64_t published_ = 0, dropped_ = 0, moved_ = 0;
};

}  // namespace braid
