// The memory of all sequences: pages for what grows with tokens, slots for what a sequence holds whatever its length.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/executor.h"
#include "state/need.h"
#include "tensor/tensor.h"

namespace braid {

// What one sequence holds of a pool: a slot and a list of pages. Moved, never copied; release gives it back.
struct SequenceState {
  int32_t slot = -1;
  std::vector<int32_t> pages;  // page i holds tokens [i * kPageTokens, (i + 1) * kPageTokens)
  int64_t length = 0;          // tokens whose state is held
};

// Everything a sequence holds at one length, as bytes in host memory, with the hash of the layout that made them.
struct Snapshot {
  uint64_t layout = 0;
  int64_t length = 0;
  std::vector<std::byte> bytes;
};

// Not thread-safe: the engine's thread owns it. Tensors stay where they are for the life of the pool.
class StatePool {
 public:
  static constexpr int64_t kPageTokens = 16;
  struct Limits {
    int64_t pages = 0;
    int32_t slots = 0;
  };

  // Allocates all arrays (their pages are touched when used). One more slot than asked for, the dump slot, serves
  // padding rows.
  StatePool(Executor& executor, std::vector<StateNeed> needs, Limits limits);

  // Claims a slot, cleared. A Resource error when none is free.
  SequenceState acquire();
  // Makes room for `length` tokens: takes pages, and copies the open page first where it is shared. Returns false, with
  // nothing changed, when the pool has too few free pages. The state's `length` is set by `commit`.
  bool grow(SequenceState& sequence, int64_t length);
  // How many free pages `grow` would take.
  int64_t missing_pages(const SequenceState& sequence, int64_t length) const;
  // Says that the state of the first `length` tokens is held: more after a pass, fewer where parts rewind by length.
  // Pages beyond them stay with the sequence.
  void commit(SequenceState& sequence, int64_t length);
  // A second sequence with the same past: pages are shared, the slot is copied. A Resource error when no slot is free.
  // Pages that hold no committed token are not shared.
  SequenceState fork(const SequenceState& sequence);
  // Gives slot and pages back; doing so twice is harmless.
  void release(SequenceState& sequence);

  // State that is kept for later requests, whose pages can be had at any time by releasing it: `keep` takes a whole
  // state over, `keep_pages` shares the pages of the first `length` tokens of one that goes on. What is kept is
  // released by `release_kept`, and read by `resume`: a sequence of the first `length` tokens that shares its pages,
  // with a slot of its own, whose contents are the caller's to write.
  void keep(SequenceState& sequence);
  SequenceState keep_pages(const SequenceState& sequence, int64_t length);
  SequenceState resume(const SequenceState& kept, int64_t length);
  void release_kept(SequenceState& kept);
  // Pages that nobody but kept states holds: with the free ones, what requests can have.
  int64_t kept_pages() const { return kept_pages_; }
  // Of the pages of `kept` up to `length`, how many are held by kept states alone.
  int64_t pages_kept_alone(const SequenceState& kept, int64_t length) const;

  // Slots apart from sequences. What one holds is written by `copy_slot` and `upload_slot`.
  int32_t take_slot();
  void give_slot(int32_t slot);
  void copy_slot(int32_t to, int32_t from);
  void download_slot(std::span<std::byte> to, int32_t slot) const;
  void upload_slot(int32_t slot, std::span<const std::byte> from);
  void download_page(std::span<std::byte> to, int32_t page) const;
  void upload_page(int32_t page, std::span<const std::byte> from);
  size_t slot_bytes() const { return slot_bytes_; }  // of all arrays
  size_t page_bytes() const { return page_bytes_; }

  Snapshot snapshot(const SequenceState& sequence) const;
  size_t snapshot_bytes(int64_t length) const;
  // A new sequence from a snapshot; an Input error when its layout is another, a Resource error when there is no room.
  SequenceState restore(const Snapshot& snapshot);

  // The whole array of a need: u8 [pages, kPageTokens, bytes per token] or u8 [slots + 1, bytes per sequence].
  Tensor array(MemoryId memory) const;
  int32_t dump_slot() const { return limits_.slots; }
  int64_t free_pages() const { return static_cast<int64_t>(free_pages_.size()); }
  int32_t free_slots() const { return static_cast<int32_t>(free_slots_.size()); }
  const Limits& limits() const { return limits_; }
  const std::vector<StateNeed>& needs() const { return needs_; }
  // Hash of the needs and the page size: equal layouts may exchange snapshots.
  uint64_t layout() const { return layout_; }
  // Programmer check: every page and slot is free or held exactly as often as it is counted, by sequences and by what
  // is kept.
  void check_integrity(std::span<const SequenceState* const> held,
                       std::span<const SequenceState* const> kept = {}) const;

  static int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

 private:
  // Who holds a page: sequences and kept states together, and kept states.
  struct Holders {
    int32_t all = 0, kept = 0;
    bool kept_alone() const { return all > 0 && all == kept; }
    bool operator==(const Holders&) const = default;
  };
  int32_t take_page();
  void change_holders(int32_t page, int32_t all, int32_t kept);
  const Holders& holders(int32_t page) const { return page_holders_[static_cast<size_t>(page)]; }
  // The bytes of a slot, or of the first `tokens` of a page.
  Tensor in_slot(size_t need, int32_t slot) const;
  Tensor in_page(size_t need, int32_t page, int64_t tokens) const;
  template <typename Visit>
  void visit_slot(int32_t slot, Visit&& visit) const;
  template <typename Visit>
  void visit_page(int32_t page, Visit&& visit) const;
  void copy(Tensor to, Tensor from);
  // Calls visit(bytes of the pool, offset in the snapshot) for everything that a snapshot of this sequence holds.
  template <typename Visit>
  void visit_snapshot(const SequenceState& sequence, Visit&& visit) const;

  Executor* executor_;
  std::vector<StateNeed> needs_;
  Limits limits_;
  uint64_t layout_ = 0;
  std::vector<Memory> memory_;
  std::vector<Tensor> arrays_;
  size_t slot_bytes_ = 0, page_bytes_ = 0;
  std::vector<int32_t> free_pages_, free_slots_;
  std::vector<Holders> page_holders_;
  int64_t kept_pages_ = 0;
  std::vector<bool> slot_held_;
};

}  // namespace braid
