// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "ops/contract.h"
#include "ops/memory.h"

namespace braid {
namespace {

constexpr DType kTypes[] = {DType::F32, DType::BF16};

TEST(Copy, ConvertsBetweenTypesShapesAndStrides) {
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      for (const int64_t width : {1, 7, 16, 33, 300}) {
        for (const int64_t rows : {0, 1, 5}) {
          hold([=](Case& c) -> Op {
            return Copy{.out = c.strided_poison(to, rows, width), .x = c.strided_numbers(rows, width, 3, from)};
          });
        }
      }
      hold([=](Case& c) -> Op { return Copy{.out = c.poison(to, {77}), .x = c.numbers({77}, 1, from)}; });
      hold([=](Case& c) -> Op {
        return Copy{.out = c.poison(to, {2, 3, 4, 5}), .x = c.numbers({2, 3, 4, 5}, 1, from)};
      });
      // Heads out of fused rows.
      hold([=](Case& c) -> Op {
        return Copy{.out = c.poison(to, {3, 2, 8}), .x = c.strided_numbers(3, 16, 1, from).split_columns(2)};
      });
    }
  }
}

TEST(Copy, RoundsToNearestEvenAndKeepsSpecialValues) {
  const std::vector<float> values = {1.0f,    -0.0f,    1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1.01p-8f,
                                     3.4e38f, INFINITY, -INFINITY,   NAN,         1e-39f};
  const auto count = std::ssize(values);
  hold([=](Case& c) -> Op { return Copy{.out = c.poison(DType::BF16, {count}), .x = c.floats({count}, values)}; });
  Case c(reference_subject());
  const Copy op{.out = c.poison(DType::BF16, {count}), .x = c.floats({count}, values)};
  c.just_run(op);
  EXPECT_EQ(op.out.as<uint16_t>()[2], 0x3F80);  // a tie goes to the even code
  EXPECT_EQ(op.out.as<uint16_t>()[3], 0x3F82);
  EXPECT_EQ(op.out.as<uint16_t>()[4], 0x3F81);
}

TEST(Gather, TakesRowsInAnyOrder) {
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      hold([=](Case& c) -> Op {
        return Gather{.out = c.strided_poison(to, 6, 37),
                      .x = c.strided_numbers(9, 37, 1, from),
                      .index = c.integers({6}, {8, 0, 3, 3, 7, 1})};
      });
      hold([=](Case& c) -> Op {
        return Gather{.out = c.poison(to, {0, 5}), .x = c.numbers({2, 5}, 1, from), .index = c.integers({0}, {})};
      });
    }
  }
  plant(
      [](Case& c) -> Op {
        return Gather{c.poison(DType::F32, {1, 5}), c.numbers({2, 5}), c.integers({1}, {1})};
      },
      [](Op& op) { return std::get<Gather>(op).x.as<float>() + 5; });
}

TEST(Fill, SetsEveryByte) {
  for (const uint8_t byte : {0, 255, 7}) {
    hold([=](Case& c) -> Op { return Fill{.out = c.numbers({3, 41}), .byte = byte}; });
    hold([=](Case& c) -> Op { return Fill{.out = c.numbers({9, 16}).slice_rows(2, 1), .byte = byte}; });
    hold([=](Case& c) -> Op { return Fill{.out = c.poison(DType::F32, {0, 16}), .byte = byte}; });
    hold([=](Case& c) -> Op { return Fill{.out = c.poison(DType::U8, {70001}), .byte = byte}; });
  }
}

TEST(Copy, AChangedInputIsSeen) {
  plant(
      [](Case& c) -> Op {
        return Copy{.out = c.poison(DType::F32, {3, 5}), .x = c.numbers({3, 5})};
      },
      [](Op& op) { return std::get<Copy>(op).x.as<float>() + 14; });
}

}  // namespace
}  // namespace braid
