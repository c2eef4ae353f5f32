// SPDX-License-Identifier: Apache-2.0
#include "cpu/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "cpu/instructions.h"
#include "tensor/weight.h"

namespace braid {
namespace {

using Instructions = CpuOptions::Instructions;

std::vector<CpuOptions> all_options() {
  std::vector<CpuOptions> out;
  for (const Instructions set : {Instructions::Avx2, Instructions::Avx512})
    for (const bool fast : {false, true})
      for (const int threads : {1, 3})
        if (set == Instructions::Avx2 || cpu::has_avx512())
          out.push_back({.threads = threads, .fast = fast, .instructions = set});
  return out;
}

std::vector<float> numbers(int64_t count, uint64_t key) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = 2 * uniform(key, i, 0) - 1;
  return out;
}

TEST(CpuExecutor, TakesWhatTheMachineHas) {
  EXPECT_EQ(cpu::choose_instructions(Instructions::Auto),
            cpu::has_avx512() ? Instructions::Avx512 : Instructions::Avx2);
  EXPECT_EQ(cpu::choose_instructions(Instructions::Avx2), Instructions::Avx2);
  if (cpu::has_avx512()) {
    EXPECT_EQ(cpu::choose_instructions(Instructions::Avx512), Instructions::Avx512);
  } else {
    EXPECT_THROW(cpu::choose_instructions(Instructions::Avx512), Error);
  }
}

TEST(CpuExecutor, RefusesMoreThreadsThanItCanCount) { EXPECT_THROW(make_cpu_executor({.threads = 100000}), Error); }

TEST(CpuExecutor, SaysHowItComputes) {
  const auto exact = make_cpu_executor({.threads = 1, .fast = false});
  const auto fast = make_cpu_executor({.threads = 1, .fast = true});
  EXPECT_EQ(fast->name(), "cpu");
  EXPECT_EQ(fast->activation_type(), DType::F32);
  EXPECT_EQ(fast->cache_type(), DType::BF16);
  EXPECT_EQ(exact->cache_type(), DType::F32);
}

TEST(CpuExecutor, AllocatesZerosAlignedAndRefusesTheImpossible) {
  const auto executor = make_cpu_executor({.threads = 1});
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5} << 20}) {
    const Memory memory = executor->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
    for (size_t i = 0; i < bytes; i += 4096) EXPECT_EQ(memory.data()[i], std::byte{0});
  }
  EXPECT_THROW(executor->allocate(size_t{1} << 60), Error);
}

TEST(CpuExecutor, RefusesWeightsWithoutAKernel) {
  const auto executor = make_cpu_executor({.threads = 1});
  const std::byte bytes[4] = {};
  Weight weight{.format = Dense{DType::I32}, .rows = 1, .columns = 1};
  weight.segments = {{.data = bytes, .rows = 1}};
  EXPECT_THROW(executor->pack(std::move(weight)), Error);
}

// Ops too small for the team lie between large ones; each reads what the one before wrote.
TEST(CpuExecutor, OpsRunInOrderWhateverTheirSize) {
  for (const CpuOptions& options : all_options()) {
    const auto executor = make_cpu_executor(options);
    const auto large = numbers(1 << 16, 1);
    std::vector<float> a(large), b(large.size()), c(8);
    const auto whole = static_cast<int64_t>(large.size());
    for (int round = 0; round < 20; ++round) {
      executor->submit(Copy{.out = Tensor(b.data(), DType::F32, {whole}), .x = Tensor(a.data(), DType::F32, {whole})});
      executor->submit(Copy{.out = Tensor(c.data(), DType::F32, {8}), .x = Tensor(b.data() + 7, DType::F32, {8})});
      executor->submit(Copy{.out = Tensor(b.data() + 8, DType::F32, {8}), .x = Tensor(c.data(), DType::F32, {8})});
      executor->submit(Copy{.out = Tensor(a.data(), DType::F32, {whole}), .x = Tensor(b.data(), DType::F32, {whole})});
    }
    std::vector<float> found(large.size());
    executor->download(std::as_writable_bytes(std::span(found)), Tensor(a.data(), DType::F32, {whole}));
    std::vector<float> expected(large);
    for (int round = 0; round < 20; ++round) std::memmove(&expected[8], &expected[7], 8 * sizeof(float));
    EXPECT_EQ(found, expected);
  }
}

// LIN-5: thin and wide products and every cut into work items give a row the same bits.
TEST(CpuExecutor, ARowHasTheSameBitsInEveryBatch) {
  const Format formats[] = {Dense{DType::F32}, Dense{DType::BF16}, Dense{DType::F16}, Fp8Block{},
                            Fp8Block{.block_rows = 3, .block_columns = 40}};
  const int64_t outputs = 77, inputs = 300;
  const auto x = numbers(512 * inputs, 3);
  for (const CpuOptions& options : all_options()) {
    const auto executor = make_cpu_executor(options);
    for (const Format& format : formats) {
      OwnedWeight owned = encode(format, numbers(outputs * inputs, 2), 1, outputs, inputs);
      const Weight weight = executor->pack(std::move(owned.weight));
      std::vector<float> expected(static_cast<size_t>(512 * outputs));
      const auto compute = [&](int64_t tokens, float* out) {
        Linear op{.x = Tensor(const_cast<float*>(x.data()), DType::F32, {tokens, inputs})};
        op.targets[0] = {Tensor(out, DType::F32, {tokens, outputs}), &weight};
        executor->submit(op);
        executor->wait();
      };
      compute(512, expected.data());
      for (const int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 13, 64, 400}) {
        std::vector<float> found(static_cast<size_t>(tokens * outputs));
        compute(tokens, found.data());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0)
            << name_of(format) << " tokens=" << tokens << " fast=" << options.fast << " threads=" << options.threads;
      }
    }
  }
}

// A NaN or infinity in one row leaves the others alone.
TEST(CpuExecutor, NonFiniteInputsStayInTheirRow) {
  for (const CpuOptions& options : all_options()) {
    const auto executor = make_cpu_executor(options);
    OwnedWeight owned = encode(Fp8Block{}, numbers(40 * 260, 2), 1, 40, 260);
    const Weight weight = executor->pack(std::move(owned.weight));
    for (const int64_t tokens : {3, 9}) {
      auto x = numbers(tokens * 260, 4);
      x[260 + 7] = INFINITY;
      x[260 + 200] = NAN;
      std::vector<float> out(static_cast<size_t>(tokens * 40));
      Linear op{.x = Tensor(x.data(), DType::F32, {tokens, 260})};
      op.targets[0] = {Tensor(out.data(), DType::F32, {tokens, 40}), &weight};
      executor->submit(op);
      executor->wait();
      for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isfinite(out[i]), i / 40 != 1) << i;
    }
  }
}

}  // namespace
}  // namespace braid
