// SPDX-License-Identifier: Apache-2.0
#include "state/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace braid {

PrefixCache::Hit PrefixCache::find(std::span<const int32_t> tokens, int64_t multiple) const {
  const PrefixIndex::Found found = index_.find(tokens);
  Hit hit{.common = found.common};
  if (slot_bytes() > 0) {
    if (found.length % multiple == 0) hit.length = found.length, hit.mark = found.mark;
  } else if (const int64_t length = found.common / multiple * multiple; length > 0) {
    hit.length = length, hit.mark = found.beyond;
  }
  return hit;
}

int64_t PrefixCache::missing_pages(const Hit& hit, int64_t room) const {
  const int64_t all = StatePool::pages_for(room);
  if (hit.mark == 0) return all;
  // Full pages are shared, and an open one is copied. Those that only marks hold can no longer be had by others.
  return all - hit.length / StatePool::kPageTokens + pool_.pages_kept_alone(state_of(hit.mark), hit.length);
}

void PrefixCache::unpin() {
  for (const MarkId id : pinned_)
    if (const auto mark = marks_.find(id); mark != marks_.end()) mark->second.pinned = false;
  pinned_.clear();
}

int64_t PrefixCache::bytes() const {
  const int64_t states = slot_bytes() == 0 ? 0 : static_cast<int64_t>(marks_.size());
  return states * slot_bytes() + pool_.kept_pages() * static_cast<int64_t>(pool_.page_bytes()) + reserved_;
}

void PrefixCache::drop(MarkId id) {
  Mark& mark = marks_.at(id);
  if (mark.state.slot >= 0) --in_slots_;
  pool_.release_kept(mark.state);
  index_.erase(id);
  order_.erase(mark.place);
  marks_.erase(id);
  ++dropped_;
}

// False when every mark is pinned.
bool PrefixCache::drop_oldest() {
  const auto oldest = std::ranges::find_if_not(order_, [&](MarkId id) { return marks_.at(id).pinned; });
  if (oldest == order_.end()) return false;
  drop(*oldest);
  return true;
}

bool PrefixCache::make_room(int64_t bytes) {
  if (reserved_ + bytes > budget_) return false;
  while (this->bytes() + bytes > budget_)
    if (!drop_oldest()) return false;
  return true;
}

void PrefixCache::reclaim_pages(int64_t pages) {
  while (pool_.free_pages() < pages && drop_oldest()) {
  }
}

bool PrefixCache::free_slot() {
  if (pool_.free_slots() > 0) return true;
  for (const MarkId id : order_) {
    Mark& mark = marks_.at(id);
    if (mark.state.slot < 0) continue;
    mark.bytes = slot_of(id);
    pool_.give_slot(std::exchange(mark.state.slot, -1));
    --in_slots_, ++moved_;
    return true;
  }
  return false;
}

SequenceState PrefixCache::resume(const Hit& hit) {
  Mark& mark = marks_.at(hit.mark);
  touch(mark);
  SequenceState sequence = pool_.resume(mark.state, hit.length);
  try {
    if (mark.state.slot >= 0)
      pool_.copy_slot(sequence.slot, mark.state.slot);
    else if (slot_bytes() > 0)
      pool_.upload_slot(sequence.slot, mark.bytes);
  } catch (...) {
    pool_.release(sequence);
    throw;
  }
  return sequence;
}

void PrefixCache::add(MarkId id, Mark mark) {
  if (mark.state.slot >= 0) ++in_slots_;
  mark.place = order_.insert(order_.end(), id);
  marks_.emplace(id, std::move(mark));
  ++published_;
  if (on_publish) on_publish(id);
}

void PrefixCache::publish(std::span<const int32_t> tokens, const SequenceState& live) {
  const auto length = static_cast<int64_t>(tokens.size());
  CHECK(live.length == length, "{} tokens of {}", length, live.length);
  if (tokens.empty()) return;
  if (const PrefixIndex::Found found = index_.find(tokens); found.length == length) return touch(marks_.at(found.mark));
  // What the budget cannot hold without `live` would push all others out, and go itself, when that ends.
  if (reserved_ + slot_bytes() + page_bytes(length) > budget_ || !make_room(slot_bytes())) return;
  // Copies come first: an executor may fail at them.
  Mark mark;
  int32_t slot = -1;
  if (slot_bytes() > 0 && free_slot()) {
    slot = pool_.take_slot();
    try {
      pool_.copy_slot(slot, live.slot);
    } catch (...) {
      pool_.give_slot(slot);
      throw;
    }
  } else if (slot_bytes() > 0) {
    mark.bytes.resize(pool_.slot_bytes());
    pool_.download_slot(mark.bytes, live.slot);
  }
  mark.state = pool_.keep_pages(live, length);
  mark.state.slot = slot;
  const MarkId id = ++last_;
  index_.insert(tokens, id);
  add(id, std::move(mark));
}

void PrefixCache::adopt(std::span<const int32_t> tokens, SequenceState& live) {
  const auto length = static_cast<int64_t>(tokens.size());
  CHECK(live.length == length, "{} tokens of {}", length, live.length);
  const PrefixIndex::Found found = index_.find(tokens);
  const bool known = length > 0 && found.length == length;
  if (known) touch(marks_.at(found.mark));
  // Its pages count as kept from now on.
  if (known || length == 0 || !make_room(slot_bytes() + page_bytes(length))) return pool_.release(live);
  pool_.keep(live);
  if (slot_bytes() == 0) pool_.give_slot(std::exchange(live.slot, -1));
  const MarkId id = ++last_;
  index_.insert(tokens, id);
  add(id, {.state = std::exchange(live, {})});
}

bool PrefixCache::insert(std::span<const int32_t> tokens, int64_t first,
                         const std::function<void(const SequenceState&)>& fill) {
  const auto length = static_cast<int64_t>(tokens.size());
  const int64_t pages = StatePool::pages_for(length) - first / StatePool::kPageTokens;
  const PrefixIndex::Found found = index_.find(tokens);
  if (found.length == length) return true;
  if (tokens.empty() || found.common < first) return false;
  if (first > 0) pin(found.beyond);
  const bool room = make_room(slot_bytes() + pages * static_cast<int64_t>(pool_.page_bytes())) && free_slot();
  reclaim_pages(pages);
  unpin();
  if (!room || pool_.free_pages() < pages) return false;
  SequenceState state = first > 0 ? pool_.resume(state_of(found.beyond), first) : pool_.acquire();
  CHECK(pool_.grow(state, length));
  pool_.commit(state, length);
  try {
    fill(state);
  } catch (...) {
    pool_.release(state);
    throw;
  }
  adopt(tokens, state);
  return true;
}

bool PrefixCache::reserve(int64_t bytes) {
  if (!make_room(bytes)) return false;
  reserved_ += bytes;
  return true;
}

void PrefixCache::clear() {
  while (!order_.empty()) drop(order_.front());
}

PrefixCache::Stats PrefixCache::stats() const {
  return {.bytes = bytes(),
          .budget = budget_,
          .reserved = reserved_,
          .marks = static_cast<int64_t>(marks_.size()),
          .published = published_,
          .dropped = dropped_,
          .moved = moved_};
}

std::vector<std::byte> PrefixCache::slot_of(MarkId id) const {
  const Mark& mark = marks_.at(id);
  if (mark.state.slot < 0) return mark.bytes;
  std::vector<std::byte> bytes(pool_.slot_bytes());
  pool_.download_slot(bytes, mark.state.slot);
  return bytes;
}

std::vector<const SequenceState*> PrefixCache::check_integrity() const {
  index_.check_integrity();
  CHECK(index_.size() == marks_.size() && order_.size() == marks_.size(), "{} marks, {} indexed, {} in order",
        marks_.size(), index_.size(), order_.size());
  std::vector<const SequenceState*> held;
  int32_t in_slots = 0;
  for (const auto& [id, mark] : marks_) {
    held.push_back(&mark.state);
    in_slots += mark.state.slot >= 0 ? 1 : 0;
    const size_t expected = mark.state.slot >= 0 ? 0 : pool_.slot_bytes();
    CHECK(mark.bytes.size() == expected, "mark {} has {} bytes, expected {}", id, mark.bytes.size(), expected);
  }
  CHECK(in_slots == in_slots_, "{} marks lie in slots, {} are counted", in_slots, in_slots_);
  return held;
}

}  // namespace braid
