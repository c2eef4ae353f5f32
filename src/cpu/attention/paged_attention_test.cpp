// A sequence's attention has the same bits alone and in any batch, with any number of threads.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cpu/executor.h"
#include "cpu/instructions.h"
#include "ops/executor.h"

namespace braid {
namespace {

struct Sequence {
  int32_t position, rows;
};

struct Shape {
  int64_t heads, groups, size, page = 16, window = 0;
  DType type = DType::F32;
};

std::vector<float> normal_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

// A batch over a cache whose unused positions are NaN.
class Batch {
 public:
  Batch(const Shape& shape, const std::vector<Sequence>& sequences) : shape_(shape), sequences_(sequences) {
    int64_t longest = 0;
    for (const Sequence& sequence : sequences) {
      starts_.push_back(starts_.back() + sequence.rows);
      for (int32_t row = 0; row < sequence.rows; ++row) positions_.push_back(sequence.position + row);
      longest = std::max<int64_t>(longest, sequence.position + sequence.rows);
    }
    pages_ = longest / shape.page + 1;
    const int64_t tokens = starts_.back(), count = static_cast<int64_t>(sequences.size());
    for (int32_t page = 0; page < pages_ * count; ++page) table_.push_back(page);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
    q_ = normal_numbers(tokens * shape.heads * shape.size, 2);
    fill(keys_, 3), fill(values_, 4);
    out_.resize(q_.size());
  }

  PagedAttention op() {
    const int64_t tokens = starts_.back(), count = static_cast<int64_t>(sequences_.size());
    PagedAttention op;
    op.out = {out_.data(), DType::F32, {tokens, shape_.heads, shape_.size}};
    op.q = {q_.data(), DType::F32, {tokens, shape_.heads, shape_.size}};
    op.scale = 1 / std::sqrt(static_cast<float>(shape_.size));
    op.window = shape_.window;
    op.rows = {.tokens = static_cast<int32_t>(tokens), .sequences = static_cast<int32_t>(count)};
    op.rows.starts = {starts_.data(), DType::I32, {count + 1}};
    op.rows.positions = {positions_.data(), DType::I32, {tokens}};
    op.rows.context = pages_ * shape_.page;
    op.cache.keys = cache(keys_), op.cache.values = cache(values_);
    op.cache.table = {table_.data(), DType::I32, {count, pages_}};
    return op;
  }
  // The rows of one sequence as a batch of their own that writes to `out`.
  PagedAttention alone(size_t sequence, std::vector<float>& out) {
    PagedAttention op = this->op();
    const int64_t first = starts_[sequence], rows = sequences_[sequence].rows;
    out.assign(static_cast<size_t>(rows * shape_.heads * shape_.size), 0);
    alone_ = {0, sequences_[sequence].rows};
    op.out = {out.data(), DType::F32, {rows, shape_.heads, shape_.size}};
    op.q = op.q.slice_rows(first, rows);
    op.rows.tokens = sequences_[sequence].rows, op.rows.sequences = 1;
    op.rows.starts = {alone_.data(), DType::I32, {2}};
    op.rows.positions = op.rows.positions.slice_rows(first, rows);
    op.cache.table = op.cache.table.slice_rows(static_cast<int64_t>(sequence), 1);
    return op;
  }
  std::vector<float> out_of(size_t sequence) const {
    const auto at = out_.begin() + starts_[sequence] * shape_.heads * shape_.size;
    return {at, at + sequences_[sequence].rows * shape_.heads * shape_.size};
  }

 private:
  void fill(std::vector<float>& cache, uint32_t seed) {
    const int64_t width = shape_.groups * shape_.size;
    const std::vector<float> numbers =
        normal_numbers(pages_ * shape_.page * static_cast<int64_t>(sequences_.size()) * width, seed);
    cache.assign(numbers.size(), NAN);
    for (size_t s = 0; s < sequences_.size(); ++s) {
      for (int64_t position = 0; position < sequences_[s].position + sequences_[s].rows; ++position) {
        const int64_t page = table_[s * static_cast<size_t>(pages_) + static_cast<size_t>(position / shape_.page)];
        const int64_t at = (page * shape_.page + position % shape_.page) * width;
        std::copy_n(numbers.begin() + at, width, cache.begin() + at);
      }
    }
    if (shape_.type == DType::BF16)
      for (size_t i = 0; i < cache.size(); ++i) reinterpret_cast<uint16_t*>(cache.data())[i] = float_to_bf16(cache[i]);
  }
  Tensor cache(std::vector<float>& numbers) {
    return {
        numbers.data(), shape_.type, {static_cast<int64_t>(table_.size()), shape_.page, shape_.groups, shape_.size}};
  }

  const Shape shape_;
  const std::vector<Sequence> sequences_;
  int64_t pages_ = 0;
  std::vector<int32_t> starts_ = {0}, alone_, positions_, table_;
  std::vector<float> q_, keys_, values_, out_;
};

void run_on(const PagedAttention& op, CpuOptions::Instructions instructions, int threads) {
  const auto executor = make_cpu_executor({.threads = threads, .instructions = instructions});
  executor->submit(op);
  executor->wait();
}

void check_batch(const Shape& shape, CpuOptions::Instructions instructions, const std::vector<Sequence>& sequences) {
  Batch batch(shape, sequences);
  run_on(batch.op(), instructions, 2);
  std::vector<float> alone;
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (sequences[s].rows == 0) continue;
    const std::vector<float> together = batch.out_of(s);
    for (const float number : together) ASSERT_TRUE(std::isfinite(number));
    for (const int threads : {1, 3}) {
      run_on(batch.alone(s, alone), instructions, threads);
      ASSERT_EQ(alone, together) << "sequence " << s << " threads " << threads;
    }
  }
}

void check(const Shape& shape, CpuOptions::Instructions instructions) {
  check_batch(shape, instructions, {{0, 1}, {1023, 1}, {2500, 1}, {5, 0}, {62, 3}, {990, 70}, {1500, 130}});
  // A few rows of a prompt beside answers. A row that is alone in its block has a form of its own, with other bits.
  for (const int32_t rows : {2, 5, 9, 17, 23, 33, 65})
    check_batch(shape, instructions, {{0, 1}, {300, 1}, {1500, rows}});
}

TEST(CpuPagedAttention, ASequenceHasTheSameBitsAloneAndInABatch) {
  for (const auto instructions : {CpuOptions::Instructions::Avx2, CpuOptions::Instructions::Avx512}) {
    if (instructions == CpuOptions::Instructions::Avx512 && !cpu::has_avx512()) continue;
    check({.heads = 4, .groups = 2, .size = 32}, instructions);
    check({.heads = 3, .groups = 3, .size = 20, .page = 7, .type = DType::BF16}, instructions);
    check({.heads = 6, .groups = 1, .size = 16, .window = 1100}, instructions);
    // Heads that the form for one position takes.
    check({.heads = 2, .groups = 1, .size = 64, .type = DType::BF16}, instructions);
    check({.heads = 3, .groups = 1, .size = 128, .page = 7, .window = 300}, instructions);
    check({.heads = 4, .groups = 4, .size = 64, .window = 70, .type = DType::BF16}, instructions);
    check({.heads = 4, .groups = 1, .size = 64}, instructions);
  }
}

}  // namespace
}  // namespace braid
