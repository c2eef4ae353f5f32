// SPDX-License-Identifier: Apache-2.0
#include "engine/batch.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "tensor/scratch.h"

namespace braid {

BatchBuilder::BatchBuilder(Executor& executor, const StatePool& pool, Limits limits, int64_t vocabulary)
    : executor_(&executor), pool_(&pool), limits_(limits), vocabulary_(vocabulary) {
  const auto lay_out = [&](Scratch scratch) {
    tokens_ = scratch.allocate(DType::I32, {limits.tokens});
    positions_ = scratch.allocate(DType::I32, {limits.tokens});
    starts_ = scratch.allocate(DType::I32, {limits.sequences + 1});
    slots_ = scratch.allocate(DType::I32, {limits.sequences});
    head_rows_ = scratch.allocate(DType::I32, {std::max<int64_t>(limits.heads, 1)});
    tables_ = scratch.allocate(DType::I32, {limits.sequences, table_pages()});
    return scratch.peak();
  };
  memory_ = executor.allocate(lay_out({}));
  lay_out({memory_.data(), memory_.bytes()});
  image_.resize(memory_.bytes());
}

int64_t BatchBuilder::table_width(int64_t context) const {
  const auto needed = static_cast<uint64_t>(std::max(StatePool::pages_for(context), kSmallestTable));
  return std::min(table_pages(), static_cast<int64_t>(std::bit_ceil(needed)));
}

Batch BatchBuilder::view(int64_t tokens, int64_t sequences, int64_t heads, int64_t pages) const {
  Batch batch{.rows = {.tokens = static_cast<int32_t>(tokens), .sequences = static_cast<int32_t>(sequences)},
              .tokens = tokens_.slice_rows(0, tokens)};
  batch.rows.longest = batch.rows.tokens;
  batch.rows.context = limits_.context;
  batch.rows.starts = starts_.slice_rows(0, sequences + 1);
  batch.rows.positions = positions_.slice_rows(0, tokens);
  batch.rows.slots = slots_.slice_rows(0, sequences);
  batch.pages = Tensor(tables_.data, DType::I32, {sequences, pages});
  if (heads > 0) batch.head_rows = head_rows_.slice_rows(0, heads);
  return batch;
}

void BatchBuilder::check(std::span<const SequenceRows> rows) const {
  int64_t tokens = 0, heads = 0;
  CHECK(!rows.empty() && std::ssize(rows) <= limits_.sequences, "{} sequences of {}", rows.size(), limits_.sequences);
  for (const SequenceRows& row : rows) {
    const SequenceState& state = *row.state;
    const int64_t count = std::ssize(row.tokens), end = state.length + count;
    tokens += count, heads += std::ssize(row.heads);
    CHECK(count > 0 && end <= limits_.context, "rows [{}, {}) of a context of {}", state.length, end, limits_.context);
    CHECK(state.slot >= 0 && state.slot < pool_->limits().slots, "slot={}", state.slot);
    CHECK(StatePool::pages_for(end) <= std::ssize(state.pages), "{} pages for {} tokens", state.pages.size(), end);
    for (const int32_t page : state.pages) CHECK(page >= 0 && page < pool_->limits().pages, "page={}", page);
    for (const int32_t token : row.tokens) CHECK(token >= 0 && token < vocabulary_, "token={}", token);
    for (const int64_t head : row.heads) CHECK(head >= 0 && head < count, "head={} of {}", head, count);
  }
  CHECK(tokens <= limits_.tokens && heads <= limits_.heads, "tokens={} heads={}", tokens, heads);
}

BuiltBatch BatchBuilder::build(std::span<const SequenceRows> rows) {
  check(rows);
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto fat =
      std::stable_partition(order.begin(), order.end(), [&](size_t index) { return rows[index].tokens.size() == 1; });
  int64_t tokens = 0, heads = 0, context = 0, longest = 0;
  for (const SequenceRows& row : rows) {
    tokens += std::ssize(row.tokens), heads += std::ssize(row.heads);
    longest = std::max(longest, std::ssize(row.tokens));
    context = std::max(context, row.state->length + std::ssize(row.tokens));
  }
  const int64_t pages = table_width(context);
  BuiltBatch built{.batch = view(tokens, std::ssize(rows), heads, pages)};
  built.starts.resize(rows.size());
  built.batch.rows.thin = static_cast<int32_t>(fat - order.begin());
  built.batch.rows.longest = static_cast<int32_t>(longest);
  built.batch.rows.context = context;
  built.batch.rows.extent = std::min(pages * StatePool::kPageTokens, limits_.context);

  const auto host = [&](const Tensor& tensor) {
    return reinterpret_cast<int32_t*>(image_.data() + (tensor.data - memory_.data()));
  };
  int32_t *token = host(tokens_), *position = host(positions_), *start = host(starts_), *slot = host(slots_),
          *head = host(head_rows_), *table = host(tables_), first = 0;
  for (const size_t index : order) {
    const SequenceRows& row = rows[index];
    const auto count = static_cast<int32_t>(row.tokens.size());
    *start++ = first;
    built.starts[index] = first;
    *slot++ = row.state->slot;
    token = std::copy(row.tokens.begin(), row.tokens.end(), token);
    for (int32_t i = 0; i < count; ++i) *position++ = static_cast<int32_t>(row.state->length) + i;
    for (const int64_t offset : row.heads) {
      *head++ = first + static_cast<int32_t>(offset);
      built.heads.push_back({.index = index, .offset = offset});
    }
    const int64_t used = std::min(pages, std::ssize(row.state->pages));
    std::copy_n(row.state->pages.begin(), used, table);
    std::fill_n(table + used, pages - used, 0);
    table += pages, first += count;
  }
  *start = first;
  const int64_t bytes = tables_.data - memory_.data() + built.batch.pages.bytes();
  executor_->upload(Tensor(memory_.data(), DType::U8, {bytes}), std::span(image_).first(static_cast<size_t>(bytes)));
  return built;
}

}  // namespace braid
