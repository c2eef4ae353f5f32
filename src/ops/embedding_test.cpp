// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding.h"

#include <gtest/gtest.h>

#include "ops/contract.h"

namespace braid {
namespace {

TEST(Embed, LooksRowsUpInEveryFormat) {
  for (const Format& format : all_formats()) {
    for (const DType type : {DType::F32, DType::BF16}) {
      for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{300, 256}, {5, 1}, {131, 130}}) {
        hold([&](Case& c) -> Op {
          return Embed{.out = c.strided_poison(type, 4, width),
                       .ids = c.integers({4}, {0, static_cast<int32_t>(rows - 1), 2, 2}),
                       .table = c.weight(format, rows, width),
                       .scale = 1.0f};
        });
      }
    }
  }
}

TEST(Embed, ScalesAndTakesNoRows) {
  hold([](Case& c) -> Op {
    return Embed{c.poison(DType::F32, {2, 40}), c.integers({2}, {1, 0}), c.weight(Dense{DType::BF16}, 3, 40), 55.5f};
  });
  hold([](Case& c) -> Op {
    return Embed{c.poison(DType::F32, {0, 40}), c.integers({0}, {}), c.weight(Dense{DType::BF16}, 3, 40), 1.0f};
  });
}

TEST(Embed, AgreesWithNumbersByHand) {
  Case c(reference_subject());
  const Embed op{c.poison(DType::F32, {2, 2}), c.integers({2}, {2, 0}), c.weight({1, 2, 3, 4, 5, 6}, 3, 2), 2.0f};
  c.just_run(op);
  EXPECT_EQ(op.out.as<float>()[0], 10);
  EXPECT_EQ(op.out.as<float>()[3], 4);
}

TEST(Embed, AWrongScaleIsSeen) {
  for (Subject& subject : subjects()) {
    Case c(subject);
    const Embed op{c.poison(DType::F32, {1, 40}), c.integers({1}, {1}), c.weight(Dense{}, 3, 40), 1.0f};
    Embed other = op;
    other.scale = 1.00001f;
    const Op steps[] = {other};
    EXPECT_NE(c.run_as(op, steps), "") << subject.name;
  }
}

}  // namespace
}  // namespace braid
