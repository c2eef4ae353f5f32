// Writes the ragged batch of a step into arrays that keep their addresses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"
#include "ops/executor.h"
#include "state/pool.h"

namespace braid {

// The next rows of one sequence: `tokens` stand at positions [state->length, ...), and the state has pages for them.
struct SequenceRows {
  const SequenceState* state = nullptr;
  std::span<const int32_t> tokens;
  std::vector<int64_t> heads;  // which of `tokens` reach the head, ascending
};

// One row of logits: rows[index].tokens[offset].
struct HeadRow {
  size_t index = 0;
  int64_t offset = 0;
  bool operator==(const HeadRow&) const = default;
};

// A batch, and where things are in it: the first of rows[i] is row starts[i], logits row i is of heads[i].
struct BuiltBatch {
  Batch batch;
  std::vector<int64_t> starts;
  std::vector<HeadRow> heads;
};

// Not thread-safe. A built batch is valid until the next one is built.
class BatchBuilder {
 public:
  struct Limits {
    int64_t tokens = 0;
    int64_t sequences = 0;
    int64_t heads = 0;    // rows that reach the head
    int64_t context = 0;  // positions of one sequence
  };
  BatchBuilder(Executor& executor, const StatePool& pool, Limits limits, int64_t vocabulary);

  // Sequences with one row first, otherwise in the order given. Everything that ops index with is checked here: tokens,
  // positions, pages, slots.
  BuiltBatch build(std::span<const SequenceRows> rows);
  // The same arrays at their largest extents, with no contents: to measure what a step needs.
  Batch largest() const { return view(limits_.tokens, limits_.sequences, limits_.heads, table_pages()); }

 private:
  static constexpr int64_t kSmallestTable = 16;
  Batch view(int64_t tokens, int64_t sequences, int64_t heads, int64_t pages) const;
  int64_t table_pages() const { return StatePool::pages_for(limits_.context); }
  // Pages in a row of the tables: a power of two, as far as there are so many, so that steps of like length are alike.
  int64_t table_width(int64_t context) const;
  void check(std::span<const SequenceRows> rows) const;

  Executor* executor_;
  const StatePool* pool_;
  Limits limits_;
  int64_t vocabulary_;
  Memory memory_;
  Tensor tokens_, positions_, starts_, slots_, head_rows_, tables_;  // page tables last: the upload ends where they do
  std::vector<std::byte> image_;                                     // host copy of memory_
};

}  // namespace braid
