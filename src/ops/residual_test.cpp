// SPDX-License-Identifier: Apache-2.0
#include "ops/residual.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/contract.h"
#include "ops/moe.h"

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

// An executor may compute a norm and the exact products that follow at once: results of both are as if it had not.
// Sums have at least eight parts, so that fewer than width / 8 + 32 roundings add up.
TEST(AddNorm, ProductsThatFollowSeeItsOutput) {
  struct Results {
    std::vector<float> stream, out, first, second;
  };
  const auto run = [](Subject& subject, int64_t width, bool add, bool weight) {
    Case c(subject);
    const AddNorm norm{.out = c.poison(DType::F32, {1, width}),
                       .stream = c.numbers({1, width}, 2),
                       .add = add ? c.numbers({1, width}, 1) : Tensor(),
                       .weight = weight ? c.numbers({width}, 1.5) : Tensor()};
    const Linear products{.x = norm.out,
                          .targets = {{{c.poison(DType::F32, {1, 33}), c.weight(Dense{DType::BF16}, 33, width)},
                                       {c.poison(DType::F32, {1, 5}), c.weight(Dense{DType::BF16}, 5, width)}}},
                          .exact = true};
    for (int repeats = 0; repeats < 2; ++repeats) c.just_run(std::vector<Op>{norm, products});
    const auto floats = [](const Tensor& t) { return std::vector<float>(t.as<float>(), t.as<float>() + t.elements()); };
    return Results{floats(norm.stream), floats(norm.out), floats(products.targets[0].out),
                   floats(products.targets[1].out)};
  };
  for (Subject& subject : subjects())
    for (const int64_t width : {8, 64, 1024, 2048, 3080, 5120, 5128})
      for (const bool add : {true, false})
        for (const bool weight : {true, false}) {
          const Results want = run(reference_subject(), width, add, weight), got = run(subject, width, add, weight);
          EXPECT_EQ(got.stream, want.stream) << subject.name << " " << width;
          const double roundings = (static_cast<double>(width) / 8 + 32) * 0x1p-24;
          const double length =
              1.5 * std::sqrt(3.0 * static_cast<double>(width));  // of the row, times that of a weight
          for (size_t i = 0; i < want.out.size(); ++i)
            ASSERT_NEAR(got.out[i], want.out[i], roundings * std::abs(want.out[i])) << subject.name << " " << width;
          for (size_t i = 0; i < want.first.size(); ++i)
            ASSERT_NEAR(got.first[i], want.first[i], roundings * length) << subject.name << " " << width;
          for (size_t i = 0; i < want.second.size(); ++i)
            ASSERT_NEAR(got.second[i], want.second[i], roundings * length) << subject.name << " " << width;
        }
}

// The products behind them too: the same bits as of the row that the norm leaves, and the norm and the exact products
// as before.
TEST(AddNorm, WideProductsThatFollowSeeItsOutput) {
  const auto floats = [](const Tensor& t) { return std::vector<float>(t.as<float>(), t.as<float>() + t.elements()); };
  struct Shape {
    int64_t width, outputs;
    bool exact, add, gated;
  };
  for (Subject& subject : subjects())
    for (const Format& format : all_formats())
      for (const Shape& shape : {Shape{256, 2000, false, true, false}, Shape{1280, 700, true, true, false},
                                 Shape{2048, 624, true, false, false}, Shape{5120, 656, true, true, true},
                                 Shape{6400, 40, true, true, false}, Shape{10240, 40, false, true, false}}) {
        Case c(subject, 1, size_t{64} << 20);
        const AddNorm norm{.out = c.poison(DType::F32, {1, shape.width}),
                           .stream = c.numbers({1, shape.width}, 2),
                           .add = shape.add ? c.numbers({1, shape.width}, 1) : Tensor(),
                           .weight = c.numbers({shape.width}, 1.5)};
        const Tensor exact = c.poison(DType::F32, {1, 33}), out = c.poison(DType::F32, {1, shape.outputs});
        std::vector<Op> ops{norm};
        if (shape.exact)
          ops.emplace_back(Linear{
              .x = norm.out, .targets = {{{exact, c.weight(Dense{DType::BF16}, 33, shape.width)}}}, .exact = true});
        if (shape.gated)
          ops.emplace_back(
              GatedLinear{.out = out, .x = norm.out, .gate_up = c.weight(format, 2 * shape.outputs, shape.width)});
        else
          ops.emplace_back(Linear{.x = norm.out, .targets = {{{out, c.weight(format, shape.outputs, shape.width)}}}});
        const std::vector<float> stream = floats(norm.stream);
        for (int repeats = 0; repeats < 3; ++repeats) c.just_run(ops);
        const std::string what = subject.name + " " + name_of(format) + " " + std::to_string(shape.width);
        for (size_t i = 0; i < stream.size(); ++i) {
          float expected = stream[i];
          for (int repeats = 0; repeats < 3 && shape.add; ++repeats) expected += norm.add.as<float>()[i];
          ASSERT_EQ(norm.stream.as<float>()[i], expected) << what << " " << i;
        }
        const std::vector<float> found = floats(out), exactly = floats(exact), row = floats(norm.out);
        c.just_run(ops.back());
        EXPECT_EQ(floats(out), found) << what;
        // Those before it once more, on a stream to which nothing is added.
        AddNorm again = norm;
        again.add = {};
        c.just_run(again);
        const double roundings = (static_cast<double>(shape.width) / 8 + 32) * 0x1p-24;
        for (size_t i = 0; i < row.size(); ++i)
          ASSERT_NEAR(row[i], norm.out.as<float>()[i], roundings * std::abs(row[i])) << what << " " << i;
        if (!shape.exact) continue;
        c.just_run(ops[1]);
        for (size_t i = 0; i < exactly.size(); ++i)
          ASSERT_NEAR(exactly[i], exact.as<float>()[i],
                      roundings * 1.5 * std::sqrt(3.0 * static_cast<double>(shape.width)))
              << what << " " << i;
      }
}

// An executor may add a row to the stream where it makes it: the row, the stream and the norm are as if it had not.
TEST(AddNorm, AddsTheOutputOfWhatComesBefore) {
  const auto floats = [](const Tensor& t) { return std::vector<float>(t.as<float>(), t.as<float>() + t.elements()); };
  const auto one_row = [](Case& c, const Format& format, int64_t inputs, int64_t width, bool experts) -> Op {
    const Tensor x = c.numbers({1, inputs}, 2), out = c.poison(DType::F32, {1, width});
    if (!experts) return Linear{.x = x, .targets = {{{out, c.weight(format, width, inputs)}}}};
    return Experts{.out = out,
                   .x = x,
                   .chosen = c.integers({1, 2}, {3, 1}),
                   .weights = c.numbers({1, 2}, 1),
                   .gate_up = c.weight(format, 256, inputs, 4),
                   .down = c.weight(format, width, 128, 4)};
  };
  for (Subject& subject : subjects())
    for (const Format& format : all_formats())
      for (const bool experts : {false, true})
        for (const int64_t width : {256, 1280})
          for (const bool normed : {true, false}) {
            Case c(subject, 1, size_t{64} << 20);
            const Op branch = one_row(c, format, experts ? width : 512, width, experts);
            const Tensor added = experts ? std::get<Experts>(branch).out : std::get<Linear>(branch).targets[0].out;
            AddNorm norm{.stream = c.numbers({1, width}, 2), .add = added, .weight = c.numbers({width}, 1.5)};
            if (normed) norm.out = c.poison(DType::F32, {1, width});
            c.just_run(branch);
            const std::vector<float> stream = floats(norm.stream), alone = floats(added);
            c.just_run(std::vector<Op>{branch, norm});
            const std::string what = subject.name + " " + name_of(format) + " " + std::to_string(width);
            EXPECT_EQ(floats(added), alone) << what;
            for (size_t i = 0; i < stream.size(); ++i)
              ASSERT_EQ(norm.stream.as<float>()[i], stream[i] + alone[i]) << what << " " << i;
            if (!normed) continue;
            const std::vector<float> row = floats(norm.out);
            AddNorm again = norm;
            again.add = {};
            c.just_run(again);
            EXPECT_EQ(floats(norm.out), row) << what;
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
