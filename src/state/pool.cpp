// SPDX-License-Identifier: Apache-2.0
#include "state/pool.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace braid {

namespace {

// FNV-1a with 64 bits: tells layouts apart, guards against nothing else.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) mix(static_cast<uint8_t>(c));
    mix(0);
  }
  void add(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) mix(static_cast<uint8_t>(static_cast<uint64_t>(value) >> shift));
  }
  uint64_t value() const { return value_; }

 private:
  void mix(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3; }
  uint64_t value_ = 0xCBF29CE484222325;
};

uint64_t layout_hash(const std::vector<StateNeed>& needs) {
  Hash hash;
  hash.add(StatePool::kPageTokens);
  for (const StateNeed& need : needs)
    hash.add(need.name), hash.add(need.bytes_per_token), hash.add(need.bytes_per_sequence);
  return hash.value();
}

bool paged(const StateNeed& need) { return need.bytes_per_token > 0; }

size_t array_bytes(const StateNeed& need, const StatePool::Limits& limits) {
  const int64_t rows = paged(need) ? limits.pages : int64_t{limits.slots} + 1;
  int64_t row = need.bytes_per_sequence, bytes = 0;
  if ((paged(need) && __builtin_mul_overflow(need.bytes_per_token, StatePool::kPageTokens, &row)) ||
      __builtin_mul_overflow(rows, row, &bytes))
    fail(ErrorKind::Resource, "state {}: {} rows are more bytes than can be counted", need.name, rows);
  return static_cast<size_t>(bytes);
}

}  // namespace

StatePool::StatePool(Executor& executor, std::vector<StateNeed> needs, Limits limits)
    : executor_(&executor), needs_(std::move(needs)), limits_(limits), layout_(layout_hash(needs_)) {
  CHECK(limits.pages >= 0 && limits.pages <= INT32_MAX && limits.slots >= 0 && limits.slots < INT32_MAX,
        "pages={} slots={}", limits.pages, limits.slots);
  for (const StateNeed& need : needs_) {
    CHECK((need.bytes_per_token > 0) != (need.bytes_per_sequence > 0), "state {}: {} bytes a token, {} a sequence",
          need.name, need.bytes_per_token, need.bytes_per_sequence);
    CHECK(need.bytes_per_token % 4 == 0 && need.bytes_per_sequence % 4 == 0,
          "state {}: bytes are copied in words of four", need.name);
    memory_.push_back(with_context("state " + need.name,
                                   [&] { return executor.allocate(std::max<size_t>(array_bytes(need, limits), 1)); }));
    (paged(need) ? page_bytes_ : slot_bytes_) +=
        static_cast<size_t>(paged(need) ? need.bytes_per_token * kPageTokens : need.bytes_per_sequence);
    std::byte* data = memory_.back().data();
    arrays_.push_back(paged(need) ? Tensor(data, DType::U8, {limits.pages, kPageTokens, need.bytes_per_token})
                                  : Tensor(data, DType::U8, {int64_t{limits.slots} + 1, need.bytes_per_sequence}));
  }
  // Taken from the back: the lowest first.
  for (int64_t page = limits.pages; page-- > 0;) free_pages_.push_back(static_cast<int32_t>(page));
  for (int32_t slot = limits.slots; slot-- > 0;) free_slots_.push_back(slot);
  page_holders_.resize(static_cast<size_t>(limits.pages));
  slot_held_.resize(static_cast<size_t>(limits.slots));
}

int32_t StatePool::take_slot() {
  if (free_slots_.empty()) fail(ErrorKind::Resource, "all {} sequence slots are taken", limits_.slots);
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slot_held_[static_cast<size_t>(slot)] = true;
  return slot;
}

int32_t StatePool::take_page() {
  const int32_t page = free_pages_.back();
  free_pages_.pop_back();
  page_holders_[static_cast<size_t>(page)] = {.all = 1};
  return page;
}

void StatePool::change_holders(int32_t page, int32_t all, int32_t kept) {
  Holders& holders = page_holders_[static_cast<size_t>(page)];
  const bool before = holders.kept_alone();
  holders.all += all, holders.kept += kept;
  CHECK(holders.kept >= 0 && holders.all >= holders.kept, "page={}", page);
  kept_pages_ += int64_t{holders.kept_alone()} - int64_t{before};
  if (holders.all == 0) free_pages_.push_back(page);
}

void StatePool::give_slot(int32_t slot) {
  CHECK(slot_held_[static_cast<size_t>(slot)], "slot={}", slot);
  slot_held_[static_cast<size_t>(slot)] = false;
  free_slots_.push_back(slot);
}

Tensor StatePool::in_slot(size_t need, int32_t slot) const {
  return arrays_[need].slice_rows(slot, 1).reshape({needs_[need].bytes_per_sequence});
}

Tensor StatePool::in_page(size_t need, int32_t page, int64_t tokens) const {
  const int64_t bytes = needs_[need].bytes_per_token;
  return arrays_[need].slice_rows(page, 1).reshape({kPageTokens * bytes}).slice_columns(0, tokens * bytes);
}

void StatePool::copy(Tensor to, Tensor from) {
  const auto words = [](Tensor bytes) { return Tensor(bytes.data, DType::F32, {1, bytes.elements() / 4}); };
  executor_->submit(Copy{.out = words(to), .x = words(from)});
}

SequenceState StatePool::acquire() {
  SequenceState sequence{.slot = take_slot()};
  for (size_t need = 0; need < needs_.size(); ++need)
    if (!paged(needs_[need])) executor_->submit(Fill{.out = in_slot(need, sequence.slot), .byte = 0});
  return sequence;
}

int64_t StatePool::missing_pages(const SequenceState& sequence, int64_t length) const {
  const auto have = static_cast<int64_t>(sequence.pages.size()), want = pages_for(length);
  int64_t missing = std::max<int64_t>(want - have, 0);
  for (int64_t page = sequence.length / kPageTokens; page < std::min(have, want); ++page)
    if (holders(sequence.pages[static_cast<size_t>(page)]).all > 1) ++missing;
  return missing;
}

bool StatePool::grow(SequenceState& sequence, int64_t length) {
  CHECK(sequence.slot >= 0 && length >= sequence.length, "slot={} length={} of {}", sequence.slot, length,
        sequence.length);
  if (missing_pages(sequence, length) > free_pages()) return false;
  const int64_t open = sequence.length / kPageTokens, used = sequence.length % kPageTokens;
  for (int64_t at = open; at < pages_for(length); ++at) {
    if (at == static_cast<int64_t>(sequence.pages.size())) {
      sequence.pages.push_back(take_page());
      continue;
    }
    int32_t& page = sequence.pages[static_cast<size_t>(at)];
    if (holders(page).all == 1) continue;
    const int32_t own = take_page();
    if (at == open && used > 0)
      for (size_t need = 0; need < needs_.size(); ++need)
        if (paged(needs_[need])) copy(in_page(need, own, used), in_page(need, page, used));
    change_holders(std::exchange(page, own), -1, 0);
  }
  return true;
}

void StatePool::commit(SequenceState& sequence, int64_t length) {
  CHECK(length >= 0 && pages_for(length) <= static_cast<int64_t>(sequence.pages.size()), "length={} pages={}", length,
        sequence.pages.size());
  sequence.length = length;
}

SequenceState StatePool::fork(const SequenceState& sequence) {
  CHECK(sequence.slot >= 0);
  SequenceState twin{.slot = take_slot(), .length = sequence.length};
  copy_slot(twin.slot, sequence.slot);
  twin.pages.assign(sequence.pages.begin(), sequence.pages.begin() + pages_for(sequence.length));
  for (const int32_t page : twin.pages) change_holders(page, 1, 0);
  return twin;
}

void StatePool::release(SequenceState& sequence) {
  for (const int32_t page : sequence.pages) change_holders(page, -1, 0);
  if (sequence.slot >= 0) give_slot(sequence.slot);
  sequence = {};
}

void StatePool::keep(SequenceState& sequence) {
  const auto used = static_cast<size_t>(pages_for(sequence.length));
  for (size_t i = 0; i < sequence.pages.size(); ++i) change_holders(sequence.pages[i], i < used ? 0 : -1, i < used);
  sequence.pages.resize(used);
}

SequenceState StatePool::keep_pages(const SequenceState& sequence, int64_t length) {
  CHECK(length <= sequence.length, "length={} of {}", length, sequence.length);
  SequenceState kept{.length = length};
  kept.pages.assign(sequence.pages.begin(), sequence.pages.begin() + pages_for(length));
  for (const int32_t page : kept.pages) change_holders(page, 1, 1);
  return kept;
}

SequenceState StatePool::resume(const SequenceState& kept, int64_t length) {
  CHECK(length <= kept.length, "length={} of {}", length, kept.length);
  SequenceState sequence{.slot = take_slot(), .length = length};
  sequence.pages.assign(kept.pages.begin(), kept.pages.begin() + pages_for(length));
  for (const int32_t page : sequence.pages) change_holders(page, 1, 0);
  return sequence;
}

void StatePool::release_kept(SequenceState& kept) {
  for (const int32_t page : kept.pages) change_holders(page, -1, -1);
  if (kept.slot >= 0) give_slot(kept.slot);
  kept = {};
}

int64_t StatePool::pages_kept_alone(const SequenceState& kept, int64_t length) const {
  return std::count_if(kept.pages.begin(), kept.pages.begin() + pages_for(length),
                       [&](int32_t page) { return holders(page).kept_alone(); });
}

// Calls visit(bytes, offset) for what all arrays hold of a slot.
template <typename Visit>
void StatePool::visit_slot(int32_t slot, Visit&& visit) const {
  size_t offset = 0;
  for (size_t need = 0; need < needs_.size(); ++need) {
    if (paged(needs_[need])) continue;
    const Tensor bytes = in_slot(need, slot);
    visit(bytes, offset);
    offset += static_cast<size_t>(bytes.bytes());
  }
}

template <typename Visit>
void StatePool::visit_page(int32_t page, Visit&& visit) const {
  size_t offset = 0;
  for (size_t need = 0; need < needs_.size(); ++need) {
    if (!paged(needs_[need])) continue;
    const Tensor bytes = in_page(need, page, kPageTokens);
    visit(bytes, offset);
    offset += static_cast<size_t>(bytes.bytes());
  }
}

void StatePool::copy_slot(int32_t to, int32_t from) {
  for (size_t need = 0; need < needs_.size(); ++need)
    if (!paged(needs_[need])) copy(in_slot(need, to), in_slot(need, from));
}

void StatePool::download_slot(std::span<std::byte> to, int32_t slot) const {
  CHECK(to.size() == slot_bytes_, "{} bytes of {}", to.size(), slot_bytes_);
  visit_slot(slot, [&](Tensor from, size_t offset) {
    executor_->download(to.subspan(offset, static_cast<size_t>(from.bytes())), from);
  });
}

void StatePool::upload_slot(int32_t slot, std::span<const std::byte> from) {
  CHECK(from.size() == slot_bytes_, "{} bytes of {}", from.size(), slot_bytes_);
  visit_slot(slot, [&](Tensor to, size_t offset) {
    executor_->upload(to, from.subspan(offset, static_cast<size_t>(to.bytes())));
  });
}

void StatePool::download_page(std::span<std::byte> to, int32_t page) const {
  CHECK(to.size() == page_bytes_, "{} bytes of {}", to.size(), page_bytes_);
  visit_page(page, [&](Tensor from, size_t offset) {
    executor_->download(to.subspan(offset, static_cast<size_t>(from.bytes())), from);
  });
}

void StatePool::upload_page(int32_t page, std::span<const std::byte> from) {
  CHECK(from.size() == page_bytes_, "{} bytes of {}", from.size(), page_bytes_);
  visit_page(page, [&](Tensor to, size_t offset) {
    executor_->upload(to, from.subspan(offset, static_cast<size_t>(to.bytes())));
  });
}

size_t StatePool::snapshot_bytes(int64_t length) const {
  int64_t bytes = 0;
  for (const StateNeed& need : needs_) bytes += need.bytes_per_token * length + need.bytes_per_sequence;
  return static_cast<size_t>(bytes);
}

template <typename Visit>
void StatePool::visit_snapshot(const SequenceState& sequence, Visit&& visit) const {
  size_t offset = 0;
  const auto pass = [&](Tensor bytes) {
    visit(bytes, offset);
    offset += static_cast<size_t>(bytes.bytes());
  };
  for (size_t need = 0; need < needs_.size(); ++need) {
    if (!paged(needs_[need])) pass(in_slot(need, sequence.slot));
    if (paged(needs_[need]))
      for (int64_t at = 0; at < sequence.length; at += kPageTokens)
        pass(in_page(need, sequence.pages[static_cast<size_t>(at / kPageTokens)],
                     std::min(kPageTokens, sequence.length - at)));
  }
}

Snapshot StatePool::snapshot(const SequenceState& sequence) const {
  CHECK(sequence.slot >= 0);
  Snapshot snapshot{.layout = layout_, .length = sequence.length};
  snapshot.bytes.resize(snapshot_bytes(sequence.length));
  visit_snapshot(sequence, [&](Tensor from, size_t offset) {
    executor_->download(std::span(snapshot.bytes).subspan(offset, static_cast<size_t>(from.bytes())), from);
  });
  return snapshot;
}

SequenceState StatePool::restore(const Snapshot& snapshot) {
  if (snapshot.layout != layout_)
    fail("snapshot has layout {:016x}, this model's state has {:016x}", snapshot.layout, layout_);
  // A length beyond the pool is refused before it is multiplied.
  if (snapshot.length < 0 || snapshot.length > free_pages() * kPageTokens)
    fail(ErrorKind::Resource, "snapshot of {} tokens does not fit in {} free pages of {}", snapshot.length,
         free_pages(), kPageTokens);
  if (snapshot.bytes.size() != snapshot_bytes(snapshot.length))
    fail("snapshot of {} tokens has {} bytes, expected {}", snapshot.length, snapshot.bytes.size(),
         snapshot_bytes(snapshot.length));
  SequenceState sequence = acquire();
  CHECK(grow(sequence, snapshot.length));
  commit(sequence, snapshot.length);
  try {
    visit_snapshot(sequence, [&](Tensor to, size_t offset) {
      executor_->upload(to, std::span(snapshot.bytes).subspan(offset, static_cast<size_t>(to.bytes())));
    });
  } catch (...) {
    release(sequence);
    throw;
  }
  return sequence;
}

Tensor StatePool::array(MemoryId memory) const {
  CHECK(memory.index >= 0 && memory.index < static_cast<int>(arrays_.size()), "memory={}", memory.index);
  return arrays_[static_cast<size_t>(memory.index)];
}

void StatePool::check_integrity(std::span<const SequenceState* const> held,
                                std::span<const SequenceState* const> kept) const {
  std::vector<Holders> holders(page_holders_.size());
  std::vector<int> slots(slot_held_.size());
  const auto count = [&](std::span<const SequenceState* const> states, int32_t by_cache) {
    for (const SequenceState* state : states) {
      CHECK(pages_for(state->length) <= static_cast<int64_t>(state->pages.size()), "length={} pages={}", state->length,
            state->pages.size());
      for (const int32_t page : state->pages)
        ++holders.at(static_cast<size_t>(page)).all, holders[static_cast<size_t>(page)].kept += by_cache;
      if (state->slot >= 0) ++slots.at(static_cast<size_t>(state->slot));
    }
  };
  count(held, 0);
  count(kept, 1);
  CHECK(holders == page_holders_, "pages are not held as often as they are counted");
  const auto alone = std::count_if(holders.begin(), holders.end(), [](const Holders& h) { return h.kept_alone(); });
  CHECK(alone == kept_pages_, "{} pages are held by kept states alone, {} are counted", alone, kept_pages_);
  for (size_t slot = 0; slot < slots.size(); ++slot)
    CHECK(slots[slot] == (slot_held_[slot] ? 1 : 0), "slot {} is held {} times", slot, slots[slot]);
  for (const int32_t page : free_pages_)
    CHECK(++holders[static_cast<size_t>(page)].all == 1, "free page {} is held", page);
  for (const int32_t slot : free_slots_) CHECK(++slots[static_cast<size_t>(slot)] == 1, "free slot {} is held", slot);
  const auto lost = std::count_if(holders.begin(), holders.end(), [](const Holders& h) { return h.all == 0; });
  const auto lost_slots = std::count(slots.begin(), slots.end(), 0);
  CHECK(lost == 0 && lost_slots == 0, "{} pages and {} slots are lost", lost, lost_slots);
}

}  // namespace braid
