// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "reference/executor.h"
#include "weights/table.h"

namespace braid {
namespace {

struct Planned {
  WeightPlan plan;
  MatrixId matrix, experts;
  VectorId norm, one_plus, conv, bias, constant;

  explicit Planned(const Json& config) : plan(nullptr, config) {
    matrix = plan.matrix("w", 200, 300);
    experts = plan.matrix({.name = "experts",
                           .count = 2,
                           .rows = 130,
                           .columns = 64,
                           .pieces = {{"a", 128, 0, 128}, {"b", 2, 0, 2}, {"c", 130, 0, 130}}});
    norm = plan.vector("x.norm.weight", {500});
    one_plus = plan.vector("y.weight", {500}, PlannedVector::Transform::AddOne);
    conv = plan.vector("conv", {400, 4});
    bias = plan.vector("dt_bias", {500});
    constant = plan.constant("table", {1, 2, 3});
  }
};

std::vector<float> values_of(const Weight& weight) {
  std::vector<float> out(static_cast<size_t>(weight.count * weight.rows * weight.columns));
  for (int64_t row = 0; row < weight.count * weight.rows; ++row)
    decode_row(weight, row / weight.rows, row % weight.rows,
               std::span(out).subspan(static_cast<size_t>(row * weight.columns), static_cast<size_t>(weight.columns)));
  return out;
}

std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.elements()};
}

struct Moments {
  double mean = 0, deviation = 0;
  explicit Moments(const std::vector<float>& values) {
    for (const float value : values) mean += value / static_cast<double>(values.size());
    for (const float value : values) deviation += (value - mean) * (value - mean) / static_cast<double>(values.size());
    deviation = std::sqrt(deviation);
  }
};

const Json kFp8 = {{"quantization_config", {{"quant_method", "fp8"}}}};

std::vector<Json> configs() {
  return {Json{{"dtype", "bfloat16"}}, Json{{"dtype", "float32"}}, Json{{"dtype", "float16"}}, kFp8};
}

TEST(RandomWeights, MatricesHaveTheDeviationOfTheirWidth) {
  const auto executor = make_reference_executor();
  for (const Json& config : configs()) {
    const Planned planned(config);
    const WeightTable table = random_weights(planned.plan, *executor, 5);
    for (const MatrixId id : {planned.matrix, planned.experts}) {
      const Weight& weight = table.matrix(id);
      const std::vector<float> values = values_of(weight);
      const Moments moments(values);
      const double expected = 1 / std::sqrt(static_cast<double>(weight.columns));
      // Six standard errors of a sample: of the mean, deviation / sqrt(n); of the deviation, at most the same times
      // 1.5. A block's scale is common to its values, so there n counts blocks.
      const double independent = static_cast<double>(
          weight.format == Format(Fp8Block{}) ? scale_count(weight.format, weight.count * weight.rows, weight.columns)
                                              : std::ssize(values));
      EXPECT_NEAR(moments.mean, 0, 6 * expected / std::sqrt(static_cast<double>(values.size())));
      EXPECT_NEAR(moments.deviation, expected, 6 * expected / std::sqrt(independent));
      EXPECT_EQ(weight.segments.size(), planned.plan.matrices()[static_cast<size_t>(id.index)].pieces.size());
    }
    EXPECT_EQ(table.bytes(), planned.plan.bytes());
  }
}

TEST(RandomWeights, VectorsLookTrained) {
  const auto executor = make_reference_executor();
  const Planned planned(kFp8);
  const WeightTable table = random_weights(planned.plan, *executor, 5);
  for (const VectorId id : {planned.norm, planned.one_plus})
    for (const float value : values_of(table.vector(id))) EXPECT_NEAR(value, 1, 0.1f);
  for (const float value : values_of(table.vector(planned.bias))) EXPECT_NEAR(value, 0, 0.1f);
  EXPECT_NEAR(Moments(values_of(table.vector(planned.conv))).deviation, 0.5, 6 * 0.5 / std::sqrt(1600.0));
  EXPECT_EQ(values_of(table.vector(planned.constant)), (std::vector<float>{1, 2, 3}));
}

TEST(RandomWeights, TheSeedDecidesEverything) {
  const auto executor = make_reference_executor();
  for (const Json& config : configs()) {
    const Planned planned(config);
    const WeightTable a = random_weights(planned.plan, *executor, 5), b = random_weights(planned.plan, *executor, 5),
                      c = random_weights(planned.plan, *executor, 6);
    EXPECT_EQ(values_of(a.matrix(planned.experts)), values_of(b.matrix(planned.experts)));
    EXPECT_NE(values_of(a.matrix(planned.experts)), values_of(c.matrix(planned.experts)));
    EXPECT_EQ(values_of(a.vector(planned.norm)), values_of(b.vector(planned.norm)));
    EXPECT_NE(values_of(a.vector(planned.norm)), values_of(c.vector(planned.norm)));
    EXPECT_NE(values_of(a.vector(planned.norm)), values_of(a.vector(planned.one_plus)));
  }
}

}  // namespace
}  // namespace braid
