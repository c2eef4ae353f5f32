// The delta rule has the same bits for a sequence in any batch, with any number of threads, and cut at borders of
// chunks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
  int64_t key_heads, value_heads, keys, values;
  int64_t channels() const { return 2 * key_heads * keys + value_heads * values; }
};

// The inputs, outputs and states of a batch.
class Batch {
 public:
  Batch(const Shape& shape, const std::vector<Sequence>& sequences) : shape_(shape) {
    for (const Sequence& sequence : sequences) {
      slots_.push_back(static_cast<int32_t>(slots_.size()));
      starts_.push_back(starts_.back() + sequence.rows);
      for (int32_t row = 0; row < sequence.rows; ++row) positions_.push_back(sequence.position + row);
    }
    const int64_t tokens = starts_.back(), count = static_cast<int64_t>(sequences.size());
    DeltaRule& op = op_;
    op.out = numbers({tokens, shape.value_heads * shape.values});
    op.qkv = numbers({tokens, shape.channels()});
    op.z = numbers({tokens, shape.value_heads * shape.values});
    op.b = numbers({tokens, shape.value_heads}), op.a = numbers({tokens, shape.value_heads});
    op.conv = numbers({shape.channels(), 4});
    op.a_log = numbers({shape.value_heads}), op.dt_bias = numbers({shape.value_heads}),
    op.norm = numbers({shape.values});
    op.conv_state = numbers({count, 3, shape.channels()});
    op.state = numbers({count, shape.value_heads, shape.keys, shape.values});
    op.key_heads = static_cast<int32_t>(shape.key_heads), op.value_heads = static_cast<int32_t>(shape.value_heads);
    op.rows = {.tokens = static_cast<int32_t>(tokens), .sequences = static_cast<int32_t>(count)};
    op.rows.starts = {starts_.data(), DType::I32, {count + 1}};
    op.rows.positions = {positions_.data(), DType::I32, {tokens}};
    op.rows.slots = {slots_.data(), DType::I32, {count}};
  }

  const DeltaRule& op() const { return op_; }
  // Rows [first, first + rows) of one sequence.
  DeltaRule part(int64_t sequence, int64_t first, int64_t rows) {
    DeltaRule op = op_;
    const int64_t token = starts_[static_cast<size_t>(sequence)] + first;
    for (Tensor* tensor : {&op.out, &op.qkv, &op.z, &op.b, &op.a, &op.rows.positions})
      *tensor = tensor->slice_rows(token, rows);
    op.rows.tokens = static_cast<int32_t>(rows), op.rows.sequences = 1;
    bounds_ = {0, static_cast<int32_t>(rows)};
    op.rows.starts = {bounds_.data(), DType::I32, {2}};
    op.rows.slots = op.rows.slots.slice_rows(sequence, 1);
    return op;
  }
  std::vector<std::vector<float>> results() const { return {values_[0], values_[9], values_[10]}; }

 private:
  Tensor numbers(std::initializer_list<int64_t> shape) {
    Tensor tensor(nullptr, DType::F32, shape);
    std::mt19937 random(static_cast<uint32_t>(values_.size()));
    std::normal_distribution<float> normal;
    std::vector<float>& numbers = values_.emplace_back(static_cast<size_t>(tensor.elements()));
    for (float& number : numbers) number = normal(random);
    tensor.data = reinterpret_cast<std::byte*>(numbers.data());
    return tensor;
  }

  const Shape shape_;
  std::vector<int32_t> starts_ = {0}, bounds_, positions_, slots_;
  std::vector<std::vector<float>> values_;  // out, qkv, z, b, a, conv, a_log, dt_bias, norm, conv_state, state
  DeltaRule op_;
};

void check(const Shape& shape, CpuOptions::Instructions instructions) {
  const std::vector<Sequence> sequences = {{5, 1}, {63, 1}, {60, 2}, {0, 0}, {20, 150}, {64, 64}, {10, 3}, {130, 62}};
  const auto run = [&](const DeltaRule& op, int threads) {
    const auto executor = make_cpu_executor({.threads = threads, .instructions = instructions});
    executor->submit(op);
    executor->wait();
  };
  Batch together(shape, sequences), alone(shape, sequences), cut(shape, sequences);
  run(together.op(), 2);
  for (size_t s = 0; s < sequences.size(); ++s) {
    const auto sequence = static_cast<int64_t>(s);
    run(alone.part(sequence, 0, sequences[s].rows), s % 2 == 0 ? 1 : 3);
    for (int32_t row = 0; row < sequences[s].rows;) {
      const int32_t rows = std::min(64 - (sequences[s].position + row) % 64, sequences[s].rows - row);
      run(cut.part(sequence, row, rows), 1);
      row += rows;
    }
  }
  EXPECT_EQ(alone.results(), together.results());
  EXPECT_EQ(cut.results(), together.results());
}

TEST(CpuDeltaRule, ASequenceHasTheSameBitsAloneInABatchAndCutAtBorders) {
  for (const auto instructions : {CpuOptions::Instructions::Avx2, CpuOptions::Instructions::Avx512}) {
    if (instructions == CpuOptions::Instructions::Avx512 && !cpu::has_avx512()) continue;
    check({.key_heads = 2, .value_heads = 4, .keys = 128, .values = 128}, instructions);
    check({.key_heads = 1, .value_heads = 3, .keys = 12, .values = 40}, instructions);
  }
}

}  // namespace
}  // namespace braid
