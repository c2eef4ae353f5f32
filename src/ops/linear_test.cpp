// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/contract.h"

namespace braid {
namespace {

struct Shape {
  int64_t tokens, outputs, inputs;
};
constexpr Shape kShapes[] = {{1, 1, 1},     {1, 7, 5},   {3, 16, 64},    {2, 129, 131},  {5, 256, 300}, {17, 33, 128},
                             {1, 384, 256}, {0, 40, 40}, {64, 130, 260}, {33, 65, 1000}, {4, 100, 17},  {8, 48, 129}};

Linear one(Case& c, const Format& format, DType type, Shape shape) {
  Linear op{.x = c.strided_numbers(shape.tokens, shape.inputs, 2, type)};
  op.targets[0] = {c.strided_poison(type, shape.tokens, shape.outputs), c.weight(format, shape.outputs, shape.inputs)};
  return op;
}

// Rows whose addresses suit every kernel.
Linear one_aligned(Case& c, const Format& format, DType type, Shape shape) {
  Linear op{.x = c.numbers({shape.tokens, shape.inputs}, 2, type)};
  op.targets[0] = {c.poison(type, {shape.tokens, shape.outputs}), c.weight(format, shape.outputs, shape.inputs)};
  return op;
}

TEST(Linear, HoldsForEveryFormatAndShape) {
  for (const Format& format : all_formats())
    for (const DType type : {DType::F32, DType::BF16})
      for (const Shape& shape : kShapes) hold([&](Case& c) -> Op { return one(c, format, type, shape); });
}

TEST(Linear, HoldsForEveryNumberOfRows) {
  for (const Format& format : all_formats())
    for (int64_t tokens = 1; tokens <= 34; ++tokens)
      hold([&](Case& c) -> Op { return one(c, format, DType::F32, {tokens, 40, 72}); });
}

TEST(Linear, ExactOnesAreHeldToUnroundedOperands) {
  for (const Format& format : all_formats())
    for (const Shape& shape : kShapes)
      hold([&](Case& c) -> Op {
        Linear op = one(c, format, DType::F32, shape);
        op.exact = true;
        return op;
      });
  for (const Format& format : all_formats())
    for (const int64_t tokens : {9, 12, 17, 23})
      hold([&](Case& c) -> Op { return one(c, format, DType::F32, {tokens, 130, 1024}); });
  for (const int64_t tokens : {2, 9, 64, 65, 256, 300})
    hold([&](Case& c) -> Op {
      Linear op{.x = c.numbers({tokens, 320}), .exact = true};
      op.targets[0] = {c.poison(DType::F32, {tokens, 70}), c.weight(Dense{DType::BF16}, 70, 320)};
      return op;
    });
}

TEST(Linear, TakesSeveralTargetsOfMixedFormats) {
  for (const int64_t tokens : {1, 2, 13, 70}) {
    hold([&](Case& c) -> Op {
      Linear op{.x = c.numbers({tokens, 256})};
      op.targets[0] = {c.poison(DType::F32, {tokens, 300}), c.weight(Fp8Block{}, 300, 256)};
      op.targets[1] = {c.strided_poison(DType::F32, tokens, 1), c.weight(Dense{DType::BF16}, 1, 256)};
      op.targets[2] = {c.poison(DType::BF16, {tokens, 31}), c.weight(Dense{DType::F16}, 31, 256)};
      op.targets[3] = {c.poison(DType::F32, {tokens, 8}), c.weight(Dense{DType::F32}, 8, 256)};
      return op;
    });
  }
}

TEST(Linear, AgreesWithNumbersByHand) {
  Case c(reference_subject());
  Linear op{.x = c.floats({2, 2}, {1, 2, 3, 4})};
  op.targets[0] = {c.poison(DType::F32, {2, 3}), c.weight({1, 0, 0, 1, 10, 100}, 3, 2)};
  c.just_run(op);
  const float expected[] = {1, 2, 210, 3, 4, 430};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(op.targets[0].out.as<float>()[i], expected[i]);
}

// Row counts and weights on both sides of where an executor changes its kernel.
TEST(Linear, HoldsForAlignedRowsOfEveryFormat) {
  for (const Format& format : all_formats())
    for (const Shape& shape :
         {Shape{1, 200, 512}, Shape{1, 384, 5120}, Shape{3, 384, 256}, Shape{4, 136, 1024}, Shape{8, 136, 640},
          Shape{16, 130, 256}, Shape{17, 256, 256}, Shape{33, 136, 384}, Shape{130, 384, 128}, Shape{255, 128, 256},
          Shape{256, 128, 256}, Shape{259, 264, 128}, Shape{1, 3200, 768}, Shape{5, 2300, 256}, Shape{9, 2300, 256}})
      for (const DType type : {DType::F32, DType::BF16})
        hold([&](Case& c) -> Op { return one_aligned(c, format, type, shape); });
}

// So many that every block of a GPU has more of them than it has warps.
TEST(Linear, HoldsForWeightsOfManyRows) {
  hold([&](Case& c) -> Op { return one_aligned(c, Fp8Block{}, DType::BF16, {5, 34900, 256}); });
}

// Targets that one launch may take together, and one that it may not.
TEST(Linear, TakesSeveralAlignedTargets) {
  for (const int64_t tokens : {1, 4, 16}) {
    for (const Format& format : {Format(Fp8Block{}), Format(Dense{DType::BF16})})
      hold([&](Case& c) -> Op {
        Linear op{.x = c.numbers({tokens, 512})};
        op.targets[0] = {c.poison(DType::F32, {tokens, 384}), c.weight(format, 384, 512)};
        op.targets[1] = {c.poison(DType::BF16, {tokens, 130}), c.weight(format, 130, 512)};
        op.targets[2] = {c.poison(DType::F32, {tokens, 128}), c.weight(Dense{DType::BF16}, 128, 512)};
        op.targets[3] = {c.poison(DType::F32, {tokens, 64}), c.weight(Dense{DType::F32}, 64, 512)};
        return op;
      });
  }
}

// The order of a sum may not depend on the number of rows.
TEST(Linear, ARowHasTheSameBitsInEveryBatch) {
  for (Subject& subject : subjects()) {
    for (const Format& format : all_formats()) {
      Case c(subject);
      const Linear all = one(c, format, DType::F32, {67, 150, 300});
      c.just_run(all);
      for (const int64_t count : {1, 2, 3, 5, 16, 33}) {
        Linear part{.x = all.x.slice_rows(19, count)};
        part.targets[0] = {c.poison(DType::F32, {count, 150}), all.targets[0].weight};
        c.just_run(part);
        for (int64_t row = 0; row < count; ++row)
          for (int64_t n = 0; n < 150; ++n)
            ASSERT_EQ(part.targets[0].out.row<float>(row)[n], all.targets[0].out.row<float>(19 + row)[n])
                << subject.name << " " << name_of(format) << " rows " << count;
      }
    }
  }
}

TEST(Linear, AChangedInputIsSeen) {
  for (const Format& format : all_formats()) {
    for (const int64_t tokens : {1, 40}) {
      plant(
          [&](Case& c) -> Op {
            return one(c, format, DType::F32, {tokens, 40, 256});
          },
          [&](Op& op) { return std::get<Linear>(op).x.row<float>(tokens - 1) + 255; });
    }
  }
}

// Operands rounded to bf16 are far outside what f32 allows.
TEST(Linear, RoundedOperandsAreSeenWhereTheyAreNotAllowed) {
  Case c(reference_subject());
  const Linear op = one(c, Dense{DType::BF16}, DType::F32, {4, 64, 256});
  EXPECT_EQ(c.run(op), "");
  std::vector<Expected> pieces = expected_of(op, kF32Precision);
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t k = 0; k < 256; ++k) op.x.row<float>(t)[k] = bf16_to_float(float_to_bf16(op.x.row<float>(t)[k]));
  const std::vector<Expected> rounded = expected_of(op, kF32Precision);
  c.just_run(op);
  EXPECT_TRUE(compare(pieces[0]).failure);
  EXPECT_FALSE(compare(rounded[0]).failure);
}

GatedLinear gated(Case& c, const Format& format, DType type, Shape shape) {
  return {.out = c.strided_poison(type, shape.tokens, shape.outputs),
          .x = c.strided_numbers(shape.tokens, shape.inputs, 2, type),
          .gate_up = c.weight(format, 2 * shape.outputs, shape.inputs)};
}

TEST(GatedLinear, HoldsForEveryFormatAndShape) {
  for (const Format& format : all_formats())
    for (const DType type : {DType::F32, DType::BF16})
      for (const Shape& shape : kShapes) hold([&](Case& c) -> Op { return gated(c, format, type, shape); });
}

TEST(GatedLinear, HoldsForAlignedRowsOfEveryFormat) {
  for (const Format& format : all_formats())
    for (const Shape& shape : {Shape{1, 192, 512}, Shape{5, 128, 256}, Shape{16, 64, 128}, Shape{19, 128, 256},
                               Shape{66, 256, 128}, Shape{257, 128, 128}, Shape{40, 72, 256}})
      hold([&](Case& c) -> Op {
        return GatedLinear{.out = c.poison(DType::F32, {shape.tokens, shape.outputs}),
                           .x = c.numbers({shape.tokens, shape.inputs}, 2),
                           .gate_up = c.weight(format, 2 * shape.outputs, shape.inputs)};
      });
}

// Rows of zeros stay zeros, however inputs are coded.
TEST(Linear, RowsOfZerosGiveZeros) {
  for (const int64_t tokens : {1, 40, 256})
    hold([&](Case& c) -> Op {
      Linear op = one_aligned(c, Fp8Block{}, DType::F32, {tokens, 128, 256});
      std::fill_n(op.x.row<float>(tokens - 1), 256, 0.0f);
      std::fill_n(op.x.row<float>(0), 128, 0.0f);
      return op;
    });
}

TEST(GatedLinear, HoldsWhereTheActivationSaturates) {
  hold([](Case& c) -> Op {
    GatedLinear op = gated(c, Dense{DType::F32}, DType::F32, {5, 33, 64});
    op.x = c.numbers({5, 64}, 300);
    return op;
  });
}

TEST(GatedLinear, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const GatedLinear op{.out = c.poison(DType::F32, {1, 2}),
                       .x = c.floats({1, 2}, {1, 2}),
                       .gate_up = c.weight({1, 0, 0, 1, 3, 0, 0, 5}, 4, 2)};
  c.just_run(op);
  EXPECT_FLOAT_EQ(op.out.as<float>()[0], 1 / (1 + std::exp(-1.0f)) * 3);
  EXPECT_FLOAT_EQ(op.out.as<float>()[1], 2 / (1 + std::exp(-2.0f)) * 10);
}

TEST(GatedLinear, AChangedInputIsSeen) {
  for (const Format& format : all_formats())
    plant(
        [&](Case& c) -> Op {
          return gated(c, format, DType::F32, {3, 40, 256});
        },
        [](Op& op) { return std::get<GatedLinear>(op).x.row<float>(1) + 77; });
}

}  // namespace
}  // namespace braid
