// SPDX-License-Identifier: Apache-2.0
#include "cpu/simd/vec_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cpu/instructions.h"
#include "tensor/dtype.h"

namespace braid::cpu {
namespace {

struct Set {
  const char* name;
  const VecProbe& probe;
};

std::vector<Set> sets() {
  std::vector<Set> out;
  if (has_avx2()) out.push_back({"avx2", avx2::kVecProbe});
  if (has_avx512()) out.push_back({"avx512", avx512::kVecProbe});
  return out;
}

// The bounds are those that simd/vec.h states.
TEST(Vec, FunctionsKeepTheirBounds) {
  for (const Set& set : sets()) {
    const auto hold = [&](const char* name, VecProbe::Error error, double bound) {
      EXPECT_LE(error.units, bound) << set.name << " " << name << " at " << error.at;
      EXPECT_GT(error.units, 0) << set.name << " " << name << ": a sweep that finds no error looks at nothing";
    };
    hold("exponential", set.probe.exponential_error(), 2);
    hold("logarithm", set.probe.logarithm_error(), 2);
    hold("logarithm_1p", set.probe.logarithm_1p_error(), 4);
    hold("sigmoid", set.probe.sigmoid_error(), 4);
    hold("silu", set.probe.silu_error(), 4);
    hold("softplus", set.probe.softplus_error(), 6);
    const double angle = set.probe.sine_cosine_error();
    EXPECT_LE(angle, 2) << set.name;
    EXPECT_GT(angle, 0) << set.name;
  }
}

TEST(Vec, FunctionsHoldAtTheirEnds) {
  for (const Set& set : sets()) {
    const VecProbe& probe = set.probe;
    EXPECT_EQ(probe.exponential(-INFINITY), 0);
    EXPECT_EQ(probe.exponential(-200), 0);
    EXPECT_EQ(probe.exponential(INFINITY), INFINITY);
    EXPECT_EQ(probe.exponential(0), 1);
    EXPECT_TRUE(std::isnan(probe.exponential(NAN)));
    EXPECT_EQ(probe.logarithm(0), -INFINITY);
    EXPECT_EQ(probe.logarithm(1), 0);
    EXPECT_EQ(probe.logarithm(INFINITY), INFINITY);
    EXPECT_TRUE(std::isnan(probe.logarithm(-1)));
    EXPECT_TRUE(std::isnan(probe.logarithm(NAN)));
    EXPECT_EQ(probe.softplus(30), 30);
    EXPECT_EQ(probe.softplus(INFINITY), INFINITY);
    EXPECT_EQ(probe.softplus(-INFINITY), 0);
    EXPECT_TRUE(std::isnan(probe.softplus(NAN)));
    EXPECT_EQ(probe.silu(0), 0);
    EXPECT_EQ(probe.silu(1e30f), 1e30f);
  }
}

TEST(Vec, ConversionsAreThoseOfSingleValues) {
  for (const Set& set : sets()) {
    EXPECT_TRUE(set.probe.rounds_to_bf16(float_to_bf16)) << set.name;
    EXPECT_TRUE(set.probe.reads_e4m3(e4m3_to_float)) << set.name;
  }
}

}  // namespace
}  // namespace braid::cpu
