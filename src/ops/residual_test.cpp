// SPDX-License-Identifier: Apache-2.0
#include "ops/residual.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/contract.h"

namespace braid {
namespace {

struct Parts {
  bool add, out, weight;
};

AddNorm make(Case& c, Parts parts, DType type, std::pair<int64_t, int64_t> shape) {
  const auto [rows, width] = shape;
  AddNorm op;
  op.stream = c.strided_numbers(rows, width, 2, type);
  if (parts.add) op.add = c.strided_numbers(rows, width, 1, type);
  if (parts.out) op.out = c.strided_poison(type, rows, width);
  if (parts.weight) op.weight = c.numbers({width}, 1.5);
  return op;
}

TEST(AddNorm, HoldsForEveryCombinationOfParts) {
  for (const DType type : {DType::F32, DType::BF16})
    for (const Parts parts : {Parts{true, true, true}, {true, true, false}, {false, true, true}, {true, false, false}})
      for (const int64_t rows : {0, 1, 2, 9})
        for (const int64_t width : {1, 7, 64, 256, 1027})
          hold([&](Case& c) -> Op { return make(c, parts, type, {rows, width}); });
}

TEST(AddNorm, OutMayBeAdd) {
  hold([](Case& c) -> Op {
    AddNorm op = make(c, {true, false, true}, DType::F32, {3, 65});
    op.out = op.add;
    return op;
  });
}

TEST(AddNorm, HoldsAtExtremes) {
  for (const double size : {0.0, 1e-20, 1e-4, 1e15}) {
    hold([&](Case& c) -> Op {
      AddNorm op = make(c, {false, true, true}, DType::F32, {2, 96});
      op.stream = c.numbers({2, 96}, size);
      op.epsilon = 1e-5f;
      return op;
    });
  }
}

TEST(AddNorm, AgreesWithTheFormulaByHand) {
  Case c(reference_subject());
  const AddNorm op{.out = c.poison(DType::F32, {1, 2}),
                   .stream = c.floats({1, 2}, {1, 2}),
                   .add = c.floats({1, 2}, {2, 2}),
                   .weight = c.floats({2}, {1, 10}),
                   .epsilon = 0.5f};
  c.just_run(op);
  EXPECT_EQ(op.stream.as<float>()[0], 3);
  EXPECT_FLOAT_EQ(op.out.as<float>()[0], 3 / std::sqrt(12.5f + 0.5f));
  EXPECT_FLOAT_EQ(op.out.as<float>()[1], 40 / std::sqrt(12.5f + 0.5f));
}

TEST(AddNorm, AChangedInputIsSeen) {
  const auto make_op = [](Case& c) -> Op { return make(c, {true, true, true}, DType::F32, {3, 256}); };
  plant(make_op, [](Op& op) { return std::get<AddNorm>(op).stream.row<float>(2) + 255; });
  plant(make_op, [](Op& op) { return std::get<AddNorm>(op).add.row<float>(1) + 3; });
  plant(make_op, [](Op& op) { return std::get<AddNorm>(op).weight.as<float>() + 100; });
}

// A wrong epsilon changes small rows only.
TEST(AddNorm, AWrongEpsilonIsSeen) {
  for (Subject& subject : subjects()) {
    Case c(subject);
    AddNorm op = make(c, {false, true, true}, DType::F32, {1, 64});
    AddNorm other = op;
    other.epsilon = 1e-5f;
    const Op steps[] = {other};
    EXPECT_NE(c.run_as(op, steps), "") << subject.name;
  }
}

}  // namespace
}  // namespace braid
