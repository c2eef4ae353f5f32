// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "reference/executor.h"
#include "weights/table.h"
#include "weights/test_files.h"

namespace braid {
namespace {

using test::complaint;
using test::expect_contains;
using test::FileWriter;
using test::TemporaryFolder;

std::vector<float> numbers(int64_t count, uint32_t stream) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = 4 * uniform(7, i, stream) - 2;
  return out;
}

std::vector<uint16_t> as_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  for (const float value : values) out.push_back(float_to_bf16(value));
  return out;
}

// A stack of matrices in FP8 blocks, and what they decode to by the definition.
struct Fp8Stack {
  int64_t count, rows, columns;
  OwnedWeight owned;
  Fp8Stack(int64_t stacked, int64_t n, int64_t k, uint32_t stream)
      : count(stacked),
        rows(n),
        columns(k),
        owned(encode(Fp8Block{}, numbers(stacked * n * k, stream), stacked, n, k)) {}
  std::vector<float> row(int64_t stacked_row) const {
    std::vector<float> out(static_cast<size_t>(columns));
    decode_row(owned.weight, stacked_row / rows, stacked_row % rows, out);
    return out;
  }
  std::vector<int64_t> grid() const { return {(rows + 127) / 128, (columns + 127) / 128}; }
  std::string_view codes(int64_t matrix) const {
    const auto bytes = static_cast<size_t>(rows * columns);
    return {reinterpret_cast<const char*>(owned.codes.data()) + static_cast<size_t>(matrix) * bytes, bytes};
  }
  std::vector<float> scales(int64_t matrix) const {
    const int64_t each = grid()[0] * grid()[1];
    return {owned.scales.begin() + matrix * each, owned.scales.begin() + (matrix + 1) * each};
  }
};

class LoaderTest : public testing::Test {
 protected:
  void add(const std::string& module, const Fp8Stack& stack) {
    writer_.add(module + ".weight", "F8_E4M3", {stack.rows, stack.columns}, stack.codes(0));
    writer_.add(module + ".weight_scale_inv", "F32", stack.grid(), stack.scales(0));
  }
  WeightPlan& plan(const Json& config = Json::object(), size_t misalign = 0) {
    writer_.write(folder_ / "model.safetensors", misalign);
    checkpoint_ = std::make_shared<Checkpoint>(folder_.path());
    plan_ = std::make_unique<WeightPlan>(checkpoint_.get(), config);
    return *plan_;
  }
  void load() { table_ = load_weights(*plan_, checkpoint_, *executor_); }
  std::vector<float> row(MatrixId id, int64_t matrix, int64_t row) const {
    const Weight& weight = table_.matrix(id);
    std::vector<float> out(static_cast<size_t>(weight.columns));
    decode_row(weight, matrix, row, out);
    return out;
  }
  std::vector<float> vector(VectorId id) const {
    const Tensor tensor = table_.vector(id);
    std::vector<float> out(static_cast<size_t>(tensor.elements()));
    executor_->download(std::as_writable_bytes(std::span(out)), tensor);
    return out;
  }
  bool in_file(const void* address) const {
    for (const auto& [name, tensor] : checkpoint_->tensors())
      if (address >= tensor.bytes.data() && address < tensor.bytes.data() + tensor.bytes.size()) return true;
    return false;
  }

  TemporaryFolder folder_;
  FileWriter writer_;
  std::shared_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<WeightPlan> plan_;
  std::unique_ptr<Executor> executor_ = make_reference_executor();
  WeightTable table_;
};

std::vector<float> rounded_to_bf16(std::vector<float> values) {
  for (float& value : values) value = bf16_to_float(float_to_bf16(value));
  return values;
}

TEST_F(LoaderTest, PartialEdgeBlocksDecodeByTheDefinition) {
  const Fp8Stack stack(1, 200, 300, 1);
  add("w", stack);
  const MatrixId id = plan().matrix("w", 200, 300);
  load();
  for (int64_t n = 0; n < 200; ++n) ASSERT_EQ(row(id, 0, n), stack.row(n));
  const WeightSegment& segment = table_.matrix(id).segments.at(0);
  EXPECT_TRUE(in_file(segment.data));
  EXPECT_TRUE(in_file(segment.scales));
  EXPECT_EQ(table_.bytes(), 200 * 300 + 4 * 6);
}

TEST_F(LoaderTest, ScalesOfOtherTypesOrPlacesBecomeF32) {
  const Fp8Stack stack(1, 130, 140, 2);
  const std::vector<uint8_t> powers = {0, 120, 127, 130};
  const auto fp8 = [&](const std::string& name) {
    writer_.add(name + ".weight", "F8_E4M3", {130, 140}, stack.codes(0));
  };
  fp8("power");
  writer_.add("power.weight_scale_inv", "U8", {2, 2}, powers);
  fp8("bf16");
  writer_.add("bf16.weight_scale_inv", "BF16", {2, 2}, as_bf16(stack.scales(0)));
  fp8("f32");
  writer_.add("f32.weight_scale_inv", "F32", {2, 2}, stack.scales(0));
  const Json config = {{"quantization_config", {{"quant_method", "fp8"}, {"scale_fmt", "ue8m0"}}}};
  for (size_t misalign = 0; misalign < 4; ++misalign) {
    plan(config, misalign);
    const MatrixId power = plan_->matrix("power", 130, 140), bf16 = plan_->matrix("bf16", 130, 140),
                   f32 = plan_->matrix("f32", 130, 140);
    load();
    EXPECT_EQ(in_file(table_.matrix(f32).segments[0].scales), misalign == 0);
    for (const int64_t n : {0, 127, 128, 129}) {
      ASSERT_EQ(row(f32, 0, n), stack.row(n));
      const std::string_view codes = stack.codes(0).substr(static_cast<size_t>(n * 140), 140);
      for (size_t k = 0; k < 140; ++k) {
        const float code = e4m3_to_float(static_cast<uint8_t>(codes[k]));
        const size_t block = static_cast<size_t>(n / 128 * 2) + k / 128;
        ASSERT_EQ(row(power, 0, n)[k], code * std::ldexp(1.0f, powers[block] - 127));
        ASSERT_EQ(row(bf16, 0, n)[k], code * rounded_to_bf16(stack.scales(0))[block]);
      }
    }
  }
}

TEST_F(LoaderTest, PiecesArePutTogetherInAnyOrder) {
  const Fp8Stack a(1, 300, 130, 3), b(1, 128, 130, 4);
  add("a", a);
  add("b", b);
  plan();
  const MatrixId kept = plan_->matrix({.name = "kept",
                                       .count = 2,
                                       .rows = 172,
                                       .columns = 130,
                                       .pieces = {{"a", 300, 256, 44}, {"b", 128, 0, 128}, {"a", 300, 128, 172}}});
  const MatrixId cut = plan_->matrix({.name = "cut", .rows = 150, .columns = 130, .pieces = {{"a", 300, 120, 150}}});
  load();
  EXPECT_EQ(table_.matrix(kept).format, Format(Fp8Block{}));
  for (int64_t n = 0; n < 44; ++n) ASSERT_EQ(row(kept, 0, n), a.row(256 + n));
  for (int64_t n = 0; n < 128; ++n) ASSERT_EQ(row(kept, 0, 44 + n), b.row(n));
  for (int64_t n = 0; n < 172; ++n) ASSERT_EQ(row(kept, 1, n), a.row(128 + n));
  EXPECT_EQ(table_.matrix(cut).format, Format(Dense{DType::BF16}));
  for (int64_t n = 0; n < 150; ++n) ASSERT_EQ(row(cut, 0, n), rounded_to_bf16(a.row(120 + n)));
}

TEST_F(LoaderTest, FusedAndSeparateExpertsLoadToTheSameMatrices) {
  const Fp8Stack up(3, 140, 200, 5);
  std::string codes;
  std::vector<float> scales;
  for (int64_t e = 0; e < 3; ++e) {
    const std::string name = "experts." + std::to_string(e) + ".up";
    writer_.add(name + ".weight", "F8_E4M3", {140, 200}, up.codes(e));
    writer_.add(name + ".weight_scale_inv", "F32", {2, 2}, up.scales(e));
    codes += up.codes(e);
    for (const float scale : up.scales(e)) scales.push_back(scale);
  }
  writer_.add("experts.up", "F8_E4M3", {3, 140, 200}, codes);
  writer_.add("experts.up_scale_inv", "F32", {3, 2, 2}, scales);
  plan();
  PlannedMatrix fused{.name = "fused", .count = 3, .rows = 140, .columns = 200}, separate = fused, halves = fused;
  halves.rows = 70;
  for (int64_t e = 0; e < 3; ++e) {
    fused.pieces.push_back({"experts.up", 420, e * 140, 140});
    separate.pieces.push_back({"experts." + std::to_string(e) + ".up", 140, 0, 140});
    halves.pieces.push_back({"experts.up", 420, e * 140 + 70, 70});
  }
  const MatrixId one = plan_->matrix(fused), other = plan_->matrix(separate), half = plan_->matrix(halves);
  plan_->finish();
  load();
  EXPECT_EQ(table_.matrix(one).format, Format(Fp8Block{}));
  EXPECT_EQ(table_.matrix(half).format, Format(Dense{DType::BF16}));
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t n = 0; n < 140; ++n) {
      ASSERT_EQ(row(one, e, n), up.row(e * 140 + n));
      ASSERT_EQ(row(other, e, n), up.row(e * 140 + n));
      if (n >= 70) {
        ASSERT_EQ(row(half, e, n - 70), rounded_to_bf16(up.row(e * 140 + n)));
      }
    }
  }
}

TEST_F(LoaderTest, FloatsAndMixturesKeepTheirValues) {
  const std::vector<float> values = rounded_to_bf16(numbers(12, 6));
  std::vector<uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_f16(value));
  writer_.add("f32.weight", "F32", {3, 4}, values);
  writer_.add("bf16.weight", "BF16", {3, 4}, as_bf16(values));
  writer_.add("f16.weight", "F16", {3, 4}, halves);
  for (size_t misalign = 0; misalign < 2; ++misalign) {
    plan(Json::object(), misalign);
    const MatrixId plain = plan_->matrix("f16", 3, 4);
    const MatrixId mixed = plan_->matrix(
        {.name = "mixed", .rows = 9, .columns = 4, .pieces = {{"f32", 3, 0, 3}, {"bf16", 3, 0, 3}, {"f16", 3, 0, 3}}});
    load();
    EXPECT_EQ(table_.matrix(mixed).format, Format(Dense{DType::F32}));
    EXPECT_TRUE(in_file(table_.matrix(plain).segments[0].data));
    for (int64_t n = 0; n < 9; ++n) {
      for (size_t k = 0; k < 4; ++k) {
        const float value = values[static_cast<size_t>(n % 3 * 4) + k];
        const float half = f16_to_float(float_to_f16(value));
        ASSERT_EQ(row(mixed, 0, n)[k], n < 6 ? value : half);
        if (n < 3) {
          ASSERT_EQ(row(plain, 0, n)[k], half);
        }
      }
    }
  }
}

TEST_F(LoaderTest, VectorsBecomeF32WithTheirTransform) {
  const std::vector<float> values = {-0.5f, 0.25f, 3.0f};
  writer_.add("norm", "BF16", {3}, as_bf16(values));
  writer_.add("conv", "F32", {3, 1, 1, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  plan(Json::object(), 1);
  const VectorId plain = plan_->vector("norm", {3});
  const VectorId one = plan_->vector("norm", {3}, PlannedVector::Transform::AddOne);
  const VectorId conv = plan_->vector("conv", {3, 2}), constant = plan_->constant("table", {7, 8});
  load();
  EXPECT_EQ(vector(plain), values);
  EXPECT_EQ(vector(one), (std::vector<float>{0.5f, 1.25f, 4.0f}));
  EXPECT_EQ(vector(conv), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(vector(constant), (std::vector<float>{7, 8}));
  EXPECT_EQ(table_.vector(conv).describe(), "f32[3, 2]");
  EXPECT_TRUE(table_.vector(conv).contiguous());
  EXPECT_FALSE(table_.vector(VectorId{}));
  for (const VectorId id : {plain, one, conv, constant})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(table_.vector(id).data) % 64, 0u);
}

TEST_F(LoaderTest, ValuesThatAreNotFiniteAreRefusedByName) {
  const Fp8Stack stack(1, 8, 8, 7);
  writer_.add("nan_norm", "BF16", {2}, std::vector<uint16_t>{0x3F80, 0x7FC0});
  writer_.add("inf_norm", "F32", {2}, std::vector<float>{INFINITY, 0});
  for (const char* name : {"nan", "inf", "power"})
    writer_.add(name + std::string(".weight"), "F8_E4M3", {8, 8}, stack.codes(0));
  writer_.add("nan.weight_scale_inv", "F32", {1, 1}, std::vector<float>{NAN});
  writer_.add("inf.weight_scale_inv", "F16", {1, 1}, std::vector<uint16_t>{0x7C00});
  writer_.add("power.weight_scale_inv", "F8_E8M0", {1, 1}, std::vector<uint8_t>{255});
  plan();
  for (const char* name : {"nan_norm", "inf_norm"}) {
    WeightPlan one(checkpoint_.get(), Json::object());
    one.vector(name, {2});
    expect_contains(complaint([&] { load_weights(one, checkpoint_, *executor_); }), name + std::string(": value "));
  }
  for (const char* name : {"nan", "inf", "power"}) {
    WeightPlan one(checkpoint_.get(), Json::object());
    one.matrix(name, 8, 8);
    const std::string message = complaint([&] { load_weights(one, checkpoint_, *executor_); });
    expect_contains(message, name + std::string(".weight_scale_inv: value "));
    expect_contains(message, "is not finite (in " + (folder_ / "model.safetensors").string());
  }
}

// Matrices are not looked through while loading.
TEST_F(LoaderTest, AValueThatIsNotFiniteIsFound) {
  writer_.add("a", "BF16", {2, 2}, std::vector<uint16_t>{0x3F80, 0x3F80, 0x3F80, 0x3F80});
  writer_.add("b", "U8", {1}, std::vector<uint8_t>{255});
  plan();
  check_values(*checkpoint_);
  const std::string tail = "is not finite (in " + (folder_ / "model.safetensors").string();
  const auto found = [&](const char* name, const char* type, const auto& values) {
    writer_.add(name, type, {1, 2}, values);
    plan();
    const std::string message = complaint([&] { check_values(*checkpoint_); });
    expect_contains(message, name + std::string(": value "));
    expect_contains(message, "at index 1 " + tail);
  };
  found("z4", "F8_E4M3", std::vector<uint8_t>{0x7E, 0xFF});
  found("z3", "BF16", std::vector<uint16_t>{0x7F7F, 0xFF81});
  found("z2", "F16", std::vector<uint16_t>{0x7BFF, 0x7C00});
  found("z1", "F32", std::vector<float>{1, -INFINITY});
  found("z0", "F8_E8M0", std::vector<uint8_t>{254, 255});
}

}  // namespace
}  // namespace braid
