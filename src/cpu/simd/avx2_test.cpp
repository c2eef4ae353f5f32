// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "cpu/instructions.h"
#include "tensor/dtype.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define BRAID_ISA avx2
#define BRAID_ISA_HEADER "cpu/simd/avx2.h"
#include "cpu/simd/vec_checks.h"
#pragma GCC pop_options

namespace braid::cpu::avx2 {
namespace {

class Avx2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_avx2()) GTEST_SKIP() << "this processor lacks avx2";
  }
};

// The bounds are those that simd/vec.h states.
TEST_F(Avx2, FunctionsKeepTheirBounds) {
  const auto holds = [](const char* name, Error error, double bound) {
    EXPECT_LE(error.units, bound) << name << " at " << error.at;
    EXPECT_GT(error.units, 0) << name << ": a sweep that finds no error at all looks at nothing";
  };
  holds("exponential", exponential_error(), 2);
  holds("logarithm", logarithm_error(), 2);
  holds("logarithm_1p", logarithm_1p_error(), 4);
  holds("sigmoid", sigmoid_error(), 4);
  holds("silu", silu_error(), 4);
  holds("softplus", softplus_error(), 6);
  EXPECT_LE(sine_cosine_error(), 2);
  EXPECT_GT(sine_cosine_error(), 0);
}

TEST_F(Avx2, FunctionsHoldAtTheirEnds) {
  EXPECT_EQ(exponential_of(-INFINITY), 0);
  EXPECT_EQ(exponential_of(-200), 0);
  EXPECT_EQ(exponential_of(INFINITY), INFINITY);
  EXPECT_EQ(exponential_of(0), 1);
  EXPECT_TRUE(std::isnan(exponential_of(NAN)));
  EXPECT_EQ(logarithm_of(0), -INFINITY);
  EXPECT_EQ(logarithm_of(1), 0);
  EXPECT_EQ(logarithm_of(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(logarithm_of(-1)));
  EXPECT_TRUE(std::isnan(logarithm_of(NAN)));
  EXPECT_EQ(softplus_of(30), 30);
  EXPECT_EQ(softplus_of(INFINITY), INFINITY);
  EXPECT_EQ(softplus_of(-INFINITY), 0);
  EXPECT_TRUE(std::isnan(softplus_of(NAN)));
  EXPECT_EQ(silu_of(0), 0);
  EXPECT_EQ(silu_of(1e30f), 1e30f);
}

TEST_F(Avx2, ConversionsAreThoseOfTheScalars) {
  EXPECT_TRUE(rounds_to_bf16(float_to_bf16));
  EXPECT_TRUE(reads_e4m3(e4m3_to_float));
}

}  // namespace
}  // namespace braid::cpu::avx2
