// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/scratch.h"

namespace braid {
namespace {

// A token and a log-probability for the draw itself and for each of the likeliest.
constexpr int64_t kResultBytes = 2 * 4 * (1 + kMaxLogprobs);

// Reads tokens [rows], logprobs [rows], top tokens [rows, wanted], top logprobs [rows, wanted].
std::vector<Drawn> read_results(std::span<const std::byte> bytes, std::span<const DrawRow> rows, int64_t wanted) {
  const auto read = [&]<typename T>(int64_t index, T value) {
    std::memcpy(&value, &bytes[static_cast<size_t>(index) * 4], 4);
    return value;
  };
  const auto count = static_cast<int64_t>(rows.size());
  std::vector<Drawn> drawn(rows.size());
  for (int64_t r = 0; r < count; ++r) {
    Drawn& row = drawn[static_cast<size_t>(r)];
    row = {.token = read(r, int32_t{}), .logprob = read(count + r, float{})};
    const int64_t top = 2 * count + r * wanted;
    for (int64_t i = 0; i < std::min<int64_t>(rows[static_cast<size_t>(r)].logprobs, wanted); ++i)
      if (const int32_t token = read(top + i, int32_t{}); token >= 0)
        row.top.push_back({.token = token, .logprob = read(top + count * wanted + i, float{})});
  }
  return drawn;
}

}  // namespace

Sampler::Sampler(Executor& executor, int64_t vocabulary, int32_t rows, TokenSet allowed)
    : executor_(&executor), rows_(rows), restricted_(!allowed.empty()), allowed_(std::move(allowed)) {
  const auto words = static_cast<size_t>((vocabulary + 31) / 32);
  allowed_.resize(words, restricted_ ? 0 : -1);
  if (!restricted_ && vocabulary % 32 != 0) allowed_.back() = static_cast<int32_t>((1u << (vocabulary % 32)) - 1);
  const auto lay_out = [&](Scratch scratch) {
    if (restricted_) mask_ = scratch.allocate(DType::I32, {1, (vocabulary + 31) / 32});
    params_ = scratch.allocate(DType::U8, {rows, sizeof(SampleRow)});
    starts_ = scratch.allocate(DType::I32, {rows + 1});
    penalties_ = scratch.allocate(DType::F32, {rows, 3});
    results_ = scratch.allocate(DType::U8, {rows * kResultBytes});
    return scratch.peak();
  };
  arrays_ = executor.allocate(lay_out({}));
  lay_out({arrays_.data(), arrays_.bytes()});
  if (restricted_) executor.upload(mask_, std::as_bytes(std::span(allowed_)));
}

void Sampler::penalise(Tensor logits, std::span<const DrawRow> rows) {
  std::vector<int32_t> starts{0};
  std::vector<TokenEntry> entries;
  std::vector<Penalties> penalties;
  for (const DrawRow& row : rows) {
    entries.insert(entries.end(), row.entries.begin(), row.entries.end());
    starts.push_back(static_cast<int32_t>(entries.size()));
    penalties.push_back(row.penalties);
  }
  if (entries.empty()) return;
  const size_t bytes = entries.size() * sizeof(TokenEntry);
  if (bytes > entry_memory_.bytes()) {
    executor_->wait();  // nothing submitted may still read what is freed
    entry_memory_ = executor_->allocate(2 * bytes);
  }
  const auto count = static_cast<int64_t>(rows.size());
  const Penalise op{
      .logits = logits,
      .starts = starts_.slice_rows(0, count + 1),
      .entries = Tensor(entry_memory_.data(), DType::U8, {static_cast<int64_t>(entries.size()), sizeof(TokenEntry)}),
      .penalties = penalties_.slice_rows(0, count)};
  executor_->upload(op.starts, std::as_bytes(std::span(starts)));
  executor_->upload(op.entries, std::as_bytes(std::span(entries)));
  executor_->upload(op.penalties, std::as_bytes(std::span(penalties)));
  executor_->submit(op);
}

// One set for all rows, or, where a row brings its own, one for each.
void Sampler::mask(Tensor logits, std::span<const DrawRow> rows) {
  if (std::ranges::all_of(rows, [](const DrawRow& row) { return row.allowed.empty(); })) {
    if (restricted_) executor_->submit(MaskTokens{.logits = logits, .mask = mask_});
    return;
  }
  const size_t words = allowed_.size();
  if (row_masks_.bytes() == 0) row_masks_ = executor_->allocate(static_cast<size_t>(rows_) * words * sizeof(int32_t));
  std::vector<int32_t> sets;
  sets.reserve(rows.size() * words);
  for (const DrawRow& row : rows) {
    CHECK(row.allowed.empty() || row.allowed.size() == words, "{} words of {}", row.allowed.size(), words);
    const std::span<const int32_t> set = row.allowed.empty() ? std::span<const int32_t>(allowed_) : row.allowed;
    sets.insert(sets.end(), set.begin(), set.end());
  }
  const Tensor masks(row_masks_.data(), DType::I32, {static_cast<int64_t>(rows.size()), static_cast<int64_t>(words)});
  executor_->upload(masks, std::as_bytes(std::span(sets)));
  executor_->submit(MaskTokens{.logits = logits, .mask = masks});
}

std::vector<Drawn> Sampler::draw(Tensor logits, std::span<const DrawRow> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  CHECK(count > 0 && count <= rows_ && logits.rows() == count, "{} rows of {}, {}", count, rows_, logits.describe());
  int64_t wanted = 0;
  std::vector<SampleRow> params;
  for (const DrawRow& row : rows) {
    wanted = std::max<int64_t>(wanted, row.logprobs);
    params.push_back(row.how);
  }
  CHECK(wanted <= kMaxLogprobs, "logprobs={}", wanted);
  wanted = std::min(wanted, logits.width());
  penalise(logits, rows);
  mask(logits, rows);

  // All results lie together, so that one download brings them.
  std::byte* at = results_.data;
  const auto next = [&](DType type, std::initializer_list<int64_t> shape) {
    Tensor out(at, type, shape);
    at += out.bytes();
    return out;
  };
  const Sample sample{.tokens = next(DType::I32, {count}),
                      .logprobs = next(DType::F32, {count}),
                      .logits = logits,
                      .params = params_.slice_rows(0, count)};
  executor_->upload(sample.params, std::as_bytes(std::span(params)));
  executor_->submit(sample);
  if (wanted > 0)
    executor_->submit(TopLogprobs{
        .tokens = next(DType::I32, {count, wanted}), .logprobs = next(DType::F32, {count, wanted}), .logits = logits});
  std::vector<std::byte> bytes(static_cast<size_t>(at - results_.data));
  executor_->download(bytes, results_.slice_rows(0, static_cast<int64_t>(bytes.size())));

  return read_results(bytes, rows, wanted);
}

}  // namespace braid
