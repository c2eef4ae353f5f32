// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/contract.h"
#include "ops/wrappers/checked.h"
#include "ops/wrappers/counting.h"
#include "ops/wrappers/listing.h"
#include "reference/executor.h"
#include "tensor/scratch.h"

namespace braid {
namespace {

struct Small {
  Weight dense{.format = Dense{DType::BF16}, .rows = 6, .columns = 8};
  Weight fused{.format = Fp8Block{}, .rows = 256, .columns = 128};
  Weight experts{.format = Dense{DType::BF16}, .count = 4, .rows = 6, .columns = 8};
  Small() {
    for (Weight* weight : {&dense, &fused, &experts})
      for (int64_t matrix = 0; matrix < weight->count; ++matrix)
        weight->segments.push_back({.data = nullptr, .rows = weight->rows});
  }
};

// A measuring scratch gives false addresses; neither the listing nor the cost follows them.
TEST(Listing, NamesArgumentsAndShapes) {
  const Small weights;
  Scratch scratch;
  Linear op{.x = scratch.allocate(DType::F32, {3, 8})};
  op.targets[0] = {scratch.allocate(DType::F32, {3, 6}), &weights.dense};
  std::vector<std::string> lines;
  const auto reference = make_reference_executor();
  ListingExecutor listing(*reference, [&](std::string line) { lines.push_back(std::move(line)); });
  run(listing, op);
  const Tensor stream = scratch.allocate(DType::F32, {3, 8});
  run(listing, AddNorm{.out = op.x, .stream = stream});
  Experts mixture{.out = stream, .x = stream, .chosen = scratch.allocate(DType::I32, {3, 2})};
  mixture.weights = scratch.allocate(DType::F32, {3, 2}), mixture.gate_up = mixture.down = &weights.experts;
  run(listing, mixture);
  EXPECT_EQ(lines[0], "linear(x f32[3, 8], out f32[3, 6], weight bf16[6, 8])");
  EXPECT_EQ(lines[1], "add_norm(out f32[3, 8], stream f32[3, 8])");
  EXPECT_EQ(lines[2],
            "experts(out f32[3, 8], x f32[3, 8], chosen i32[3, 2], weights f32[3, 2], gate_up bf16[4, 6, 8], "
            "down bf16[4, 6, 8])");
  EXPECT_EQ(scratch.peak(), 5u * Scratch::kAlignment);
}

TEST(Listing, AddsUpMemoryThatNobodyHas) {
  const auto reference = make_reference_executor();
  ListingExecutor listing(*reference, {});
  const Memory a = listing.allocate(size_t{1} << 50), b = listing.allocate(100);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_EQ(b.data() - a.data(), std::ptrdiff_t{1} << 50);
  EXPECT_EQ(listing.allocated(), (size_t{1} << 50) + 4096);
}

TEST(Cost, CountsWeightsOnceAndTensorsPerDirection) {
  const Small weights;
  Scratch scratch;
  Linear linear{.x = scratch.allocate(DType::F32, {3, 8})};
  linear.targets[0] = {scratch.allocate(DType::F32, {3, 6}), &weights.dense};
  EXPECT_EQ(cost_of(linear).bytes, 3 * 8 * 4 + 3 * 6 * 4 + 6 * 8 * 2);
  EXPECT_EQ(cost_of(linear).flops, 2 * 3 * 6 * 8);

  const GatedLinear gated{scratch.allocate(DType::F32, {1, 128}), scratch.allocate(DType::F32, {1, 128}),
                          &weights.fused};
  EXPECT_EQ(cost_of(gated).bytes, 128 * 4 + 128 * 4 + 256 * 128 + 2 * 4);

  const Tensor x = scratch.allocate(DType::F32, {1, 8});
  Experts experts{.out = x, .x = x, .chosen = scratch.allocate(DType::I32, {1, 2})};
  experts.weights = scratch.allocate(DType::F32, {1, 2}), experts.gate_up = experts.down = &weights.experts;
  EXPECT_EQ(cost_of(experts).bytes, 2 * 8 * 4 + 8 + 8 + 2 * 2 * (6 * 8 * 2));
  experts.chosen = experts.weights = scratch.allocate(DType::I32, {5, 2});
  EXPECT_EQ(cost_of(experts).bytes, 2 * 8 * 4 + 40 + 40 + 2 * (4 * (1 - 1.0 / 32)) * (6 * 8 * 2));

  const AddNorm norm{.out = x, .stream = x, .add = x};
  EXPECT_EQ(cost_of(norm).bytes, 4 * 8 * 4);
}

TEST(Cost, CountsStateAndCacheOfADecodedTokenExactly) {
  Scratch scratch;
  const auto numbers = [&](std::initializer_list<int64_t> shape) { return scratch.allocate(DType::F32, shape); };
  Rows rows{.tokens = 1, .sequences = 1, .thin = 1, .longest = 1, .context = 100};
  PagedAttention attention{.out = numbers({1, 4, 16}), .q = numbers({1, 4, 16}), .rows = rows};
  attention.cache = {numbers({9, 16, 2, 16}), numbers({9, 16, 2, 16}), {}};
  EXPECT_EQ(cost_of(attention).bytes, 2 * 4 * 16 * 4 + 100 * 2 * 2 * 16 * 4);
  attention.window = 30;
  EXPECT_EQ(cost_of(attention).bytes, 2 * 4 * 16 * 4 + 30 * 2 * 2 * 16 * 4);

  DeltaRule rule{.out = numbers({1, 16}), .qkv = numbers({1, 48}), .conv = numbers({48, 4}), .rows = rows};
  rule.state = numbers({5, 2, 8, 8}), rule.conv_state = numbers({5, 3, 48});
  EXPECT_EQ(cost_of(rule).bytes, 4 * (16 + 48 + 48 * 4) + 2 * 4 * (2 * 8 * 8 + 3 * 48));
}

TEST(Counting, AddsUpByName) {
  const auto reference = make_reference_executor();
  CountingExecutor counting(*reference);
  std::vector<float> memory(64);
  const Tensor out(memory.data(), DType::F32, {4, 4}), x(memory.data() + 32, DType::F32, {4, 4});
  run(counting, Copy{out, x});
  run(counting, Copy{out, x});
  run(counting, Fill{out});
  EXPECT_EQ(counting.totals().at("copy").ops, 2);
  EXPECT_EQ(counting.totals().at("copy").cost.bytes, 256);
  EXPECT_EQ(counting.totals().at("fill").cost.bytes, 64);
}

// Passes everything on, but doubles the first output of every linear product.
class Faulty : public CountingExecutor {
 public:
  using CountingExecutor::CountingExecutor;
  void submit(const Op& op) override {
    CountingExecutor::submit(op);
    if (const auto* linear = std::get_if<Linear>(&op)) linear->targets[0].out.as<float>()[0] *= 2;
  }
};

TEST(Checked, PassesRightExecutorsAndNamesTheFaultOfOthers) {
  std::vector<float> memory(64, 1.0f);
  const std::vector<float> values(32, 0.25f);
  const OwnedWeight owned = encode(Dense{DType::F32}, values, 1, 4, 8);
  const auto plain = [&] { return Weight{owned.weight.format, 1, 4, 8, owned.weight.segments, nullptr}; };
  const auto reference = make_reference_executor();
  CheckedExecutor checked(*reference, kExactPrecision);
  const Weight weight = checked.pack(plain());
  Linear op{.x = Tensor(memory.data(), DType::F32, {2, 8})};
  op.targets[0] = {Tensor(memory.data() + 32, DType::F32, {2, 4}), &weight};
  EXPECT_NO_THROW(run(checked, op));
  EXPECT_LE(checked.shares().at("linear out"), 1);

  Faulty faulty(*reference);
  CheckedExecutor caught(faulty, kExactPrecision);
  const Weight packed = caught.pack(plain());
  op.targets[0].weight = &packed;
  try {
    run(caught, op);
    FAIL() << "a doubled output passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    EXPECT_EQ(error.message().find("linear on reference: out f32[2, 4] at [0, 0]: found 4, expected 2 within"), 0u)
        << error.message();
  }
}

TEST(Checked, HoldsEveryExecutorOverAShortChainOfOps) {
  for (Subject& subject : subjects()) {
    CheckedExecutor checked(*subject.executor, subject.precision);
    const Memory memory = checked.allocate(1 << 16);
    Scratch scratch(memory.data(), memory.bytes());
    const Tensor stream = scratch.allocate(DType::F32, {2, 64}), x = scratch.allocate(DType::F32, {2, 64});
    const std::vector<float> values(64 * 64, 0.01f);
    const OwnedWeight owned = encode(Dense{DType::BF16}, values, 1, 64, 64);
    const Weight weight = checked.pack({owned.weight.format, 1, 64, 64, owned.weight.segments, nullptr});
    for (int i = 0; i < 128; ++i) stream.as<float>()[i] = static_cast<float>(i % 7) - 3;
    run(checked, AddNorm{.out = x, .stream = stream});
    Linear linear{.x = x};
    linear.targets[0] = {stream, &weight};
    run(checked, linear);
    checked.wait();
    EXPECT_EQ(checked.shares().size(), 2u) << subject.name;
  }
}

}  // namespace
}  // namespace braid
