// SPDX-License-Identifier: Apache-2.0
#include "weights/plan.h"

#include <gtest/gtest.h>

#include "model/registry.h"
#include "weights/test_files.h"

namespace braid {
namespace {

using test::complaint;
using test::expect_contains;
using test::FileWriter;
using test::TemporaryFolder;

std::string zeros(int64_t bytes) { return std::string(static_cast<size_t>(bytes), '\0'); }

// A checkpoint of zeros in a folder of its own.
class PlanTest : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& type, const std::vector<int64_t>& shape) {
    int64_t bytes = type == "F32" || type == "I32" ? 4 : type == "BF16" || type == "F16" ? 2 : 1;
    for (const int64_t dim : shape) bytes *= dim;
    writer_.add(name, type, shape, zeros(bytes));
  }
  WeightPlan plan(const Json& config = Json::object()) {
    writer_.write(folder_ / "model.safetensors");
    checkpoint_ = std::make_unique<Checkpoint>(folder_.path());
    return WeightPlan(checkpoint_.get(), config);
  }
  std::string file() const { return (folder_ / "model.safetensors").string(); }

  TemporaryFolder folder_;
  FileWriter writer_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

const Json kFp8 = {{"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}};

TEST_F(PlanTest, FormatsFollowTheTensors) {
  add("a.weight", "BF16", {6, 4});
  add("b.weight", "F32", {6, 4});
  add("c.weight", "F16", {6, 4});
  add("d.weight", "F8_E4M3", {200, 300});
  add("d.weight_scale_inv", "F32", {2, 3});
  add("d.input_scale", "F32", {1});
  add("experts.up", "F8_E4M3", {3, 200, 300});
  add("experts.up_scale_inv", "BF16", {3, 2, 3});
  WeightPlan plan = this->plan(kFp8);
  const auto format = [&](MatrixId id) { return plan.matrices()[static_cast<size_t>(id.index)].format; };
  EXPECT_EQ(format(plan.matrix("a", 6, 4)), Format(Dense{DType::BF16}));
  EXPECT_EQ(format(plan.matrix("b", 6, 4)), Format(Dense{DType::F32}));
  EXPECT_EQ(format(plan.matrix("c", 6, 4)), Format(Dense{DType::F16}));
  EXPECT_EQ(format(plan.matrix("d", 200, 300)), Format(Fp8Block{}));
  PlannedMatrix experts{.name = "experts", .count = 3, .rows = 200, .columns = 300};
  for (int64_t e = 0; e < 3; ++e) experts.pieces.push_back({"experts.up", 600, e * 200, 200});
  EXPECT_EQ(format(plan.matrix(experts)), Format(Fp8Block{}));
  plan.finish();
  EXPECT_EQ(plan.bytes(), 48 + 96 + 48 + (60000 + 24) + 3 * (60000 + 24));
}

TEST_F(PlanTest, BlockShapesComeFromTheConfigOrTheRatioOfShapes) {
  add("usual.weight", "F8_E4M3", {200, 300});
  add("usual.weight_scale_inv", "F32", {2, 3});
  add("other.weight", "F8_E4M3", {128, 96});
  add("other.weight_scale_inv", "F32", {2, 3});
  add("odd.weight", "F8_E4M3", {200, 300});
  add("odd.weight_scale_inv", "F32", {7, 3});
  const Json none = {{"quantization_config", {{"quant_method", "fp8"}}}};
  WeightPlan plan = this->plan(none);
  plan.matrix("usual", 200, 300);
  plan.matrix("other", 128, 96);
  EXPECT_EQ(plan.matrices()[0].format, Format(Fp8Block{}));
  EXPECT_EQ(plan.matrices()[1].format, Format(Fp8Block{64, 32}));
  EXPECT_EQ(complaint([&] { plan.matrix("odd", 200, 300); }),
            "odd.weight: its scale grid [7, 3] does not divide [200, 300]");
  WeightPlan strict(checkpoint_.get(), kFp8);
  strict.matrix("usual", 200, 300);
  EXPECT_EQ(complaint([&] { strict.matrix("other", 128, 96); }),
            "other.weight_scale_inv: scale grid for [128, 96] in blocks of 128 x 128: expected [1, 1], found [2, 3]");
}

TEST_F(PlanTest, WhatDoesNotFitIsRefusedByName) {
  add("l.gate_proj.weight", "BF16", {20, 5});
  add("bare.weight", "F8_E4M3", {8, 8});
  add("both.weight", "BF16", {8, 8});
  add("both.weight_scale_inv", "F32", {1, 1});
  add("int.weight", "I8", {8, 8});
  add("flat.weight", "F8_E4M3", {8, 8});
  add("flat.weight_scale_inv", "F32", {1});
  add("bytes.weight", "F8_E4M3", {8, 8});
  add("bytes.weight_scale_inv", "U8", {1, 1});
  add("power.weight", "F8_E4M3", {8, 8});
  add("power.weight_scale_inv", "F8_E8M0", {1, 1});
  add("packed.qweight", "I32", {8, 8});
  WeightPlan plan = this->plan();
  const auto refused = [&](const std::string& module) { return complaint([&] { plan.matrix(module, 8, 8); }); };
  EXPECT_EQ(complaint([&] { plan.matrix("l.gate_proj", 5, 20); }),
            "l.gate_proj.weight: expected [5, 20], found [20, 5] (in " + file() + ")");
  EXPECT_EQ(refused("gone"), folder_.path().string() + ": tensor gone.weight is missing");
  expect_contains(refused("packed"), "packed.weight is missing; there is packed.qweight (I32), a coding that is not");
  expect_contains(refused("bare"), "bare.weight: is F8_E4M3 without a scale for each block (bare.weight_scale_inv)");
  expect_contains(refused("both"), "both.weight: is BF16, yet both.weight_scale_inv gives it scales");
  expect_contains(refused("int"), "int.weight: weights of type I8 are not supported");
  expect_contains(refused("flat"),
                  "flat.weight_scale_inv: scale grid for [8, 8] in blocks of 128 x 128: expected [1, 1], found [1]");
  expect_contains(refused("bytes"), "bytes.weight_scale_inv: scales of type U8 are not supported without scale_fmt");
  plan.matrix("power", 8, 8);
  WeightPlan ue8m0(checkpoint_.get(), Json{{"quantization_config", {{"quant_method", "fp8"}, {"scale_fmt", "ue8m0"}}}});
  ue8m0.matrix("bytes", 8, 8);
}

TEST_F(PlanTest, ImpossibleShapesFromAConfigAreRefused) {
  const Json config = Json::object();
  WeightPlan plan(nullptr, config);
  expect_contains(complaint([&] { plan.matrix("m", 0, 8); }), "m: the config asks for an impossible shape [1, 0, 8]");
  expect_contains(complaint([&] { plan.matrix("m", INT64_MAX, INT64_MAX); }), "impossible shape");
  expect_contains(complaint([&] { plan.vector("v", {-1}); }), "v: the config asks for an impossible shape");
  expect_contains(complaint([&] { plan.vector("v", {int64_t{1} << 40, int64_t{1} << 40}); }), "impossible shape");
}

TEST_F(PlanTest, PiecesThatCutScaleBlocksAreLoadedAsBf16) {
  add("w.weight", "F8_E4M3", {300, 128});
  add("w.weight_scale_inv", "F32", {3, 1});
  add("e", "F8_E4M3", {2, 130, 128});
  add("e_scale_inv", "F32", {2, 2, 1});
  WeightPlan plan = this->plan(kFp8);
  const auto of = [&](std::vector<Piece> pieces) {
    PlannedMatrix planned{.name = "m", .columns = 128, .pieces = std::move(pieces)};
    for (const Piece& piece : planned.pieces) planned.rows += piece.rows;
    return plan.matrices()[static_cast<size_t>(plan.matrix(planned).index)];
  };
  EXPECT_EQ(of({{"w", 300, 128, 100}, {"w", 300, 0, 50}}).format, Format(Fp8Block{}));
  EXPECT_EQ(of({{"w", 300, 64, 100}}).format, Format(Dense{DType::BF16}));
  EXPECT_TRUE(of({{"w", 300, 64, 100}}).converted());
  // Blocks start anew with each stacked matrix: row 130 begins one, row 128 begins another, rows 129..130 lie in two.
  EXPECT_EQ(of({{"e", 260, 130, 130}, {"e", 260, 128, 2}}).format, Format(Fp8Block{}));
  EXPECT_EQ(of({{"e", 260, 128, 3}}).format, Format(Dense{DType::BF16}));
}

TEST_F(PlanTest, MixedPiecesAreLoadedAsTheSmallestTypeThatLosesNothing) {
  add("bf16.weight", "BF16", {128, 128});
  add("f16.weight", "F16", {128, 128});
  add("f32.weight", "F32", {128, 128});
  add("fp8.weight", "F8_E4M3", {128, 128});
  add("fp8.weight_scale_inv", "F32", {1, 1});
  WeightPlan plan = this->plan(kFp8);
  const auto join = [&](const std::string& a, const std::string& b) {
    const MatrixId id =
        plan.matrix({.name = a + b, .rows = 256, .columns = 128, .pieces = {{a, 128, 0, 128}, {b, 128, 0, 128}}});
    return name_of(plan.matrices()[static_cast<size_t>(id.index)].format);
  };
  EXPECT_EQ(join("bf16", "fp8"), "bf16");
  EXPECT_EQ(join("fp8", "f32"), "f32");
  EXPECT_EQ(join("f16", "bf16"), "f32");
  EXPECT_EQ(join("fp8", "f16"), "f32");
  EXPECT_EQ(join("f16", "f16"), "f16");
}

TEST_F(PlanTest, AskingTwiceGivesTheSameHandle) {
  add("a.weight", "BF16", {6, 4});
  add("n.weight", "F32", {4});
  WeightPlan plan = this->plan();
  const MatrixId first = plan.matrix("a", 6, 4), again = plan.matrix("a", 6, 4);
  EXPECT_EQ(first.index, again.index);
  EXPECT_EQ(plan.vector("n.weight", {4}).index, plan.vector("n.weight", {4}).index);
  EXPECT_NE(plan.vector("n.weight", {4}).index, plan.vector("n.weight", {4}, PlannedVector::Transform::AddOne).index);
  EXPECT_EQ(plan.matrices().size(), 1u);
}

TEST_F(PlanTest, LeftoversAreNamedUnlessLeftOutOrRecomputed) {
  add("a.weight", "BF16", {6, 4});
  for (const char* name : {"x.p", "x.q", "x.r", "x.s", "y.t", "layers.0.rotary_emb.inv_freq"}) add(name, "F32", {2});
  WeightPlan plan = this->plan();
  plan.matrix("a", 6, 4);
  EXPECT_EQ(complaint([&] { plan.finish(); }),
            folder_.path().string() + ": 5 tensors have no place in this model: x.p, x.q, x.r, ...");
  plan.leave_out("x.", "not needed");
  EXPECT_EQ(complaint([&] { plan.finish(); }),
            folder_.path().string() + ": 1 tensors have no place in this model: y.t");
  plan.leave_out("y", "not needed");
  plan.finish();
}

TEST_F(PlanTest, VectorsMayBeStoredWithSizesOfOne) {
  add("conv.weight", "BF16", {12, 1, 4});
  add("scalar", "F32", {});
  add("ints", "I32", {4});
  WeightPlan plan = this->plan();
  plan.vector("conv.weight", {12, 4});
  plan.vector("scalar", {1});
  expect_contains(complaint([&] { plan.vector("conv.weight", {4, 12}); }), "expected [4, 12], found [12, 1, 4]");
  expect_contains(complaint([&] { plan.vector("ints", {4}); }), "ints: expected F32, BF16 or F16, found I32");
  expect_contains(complaint([&] { plan.vector("gone", {4}); }), "tensor gone is missing");
}

TEST_F(PlanTest, PrefixesAndPresenceComeFromTheFile) {
  add("model.language_model.a.weight", "BF16", {2, 2});
  const WeightPlan plan = this->plan();
  EXPECT_EQ(plan.prefix({"model.language_model.", "model."}), "model.language_model.");
  EXPECT_EQ(plan.prefix({"absent.", "other."}), "other.");
  EXPECT_TRUE(plan.has("model.language_model.a.weight", false));
  EXPECT_FALSE(plan.has("b", true));
  const WeightPlan empty(nullptr, Json::object());
  EXPECT_EQ(empty.prefix({"model.language_model.", "model."}), "model.");
  EXPECT_TRUE(empty.has("b", true));
}

TEST_F(PlanTest, QuantMethodsWithoutSupportAreRefused) {
  add("l.q_proj.qweight", "I32", {2, 2});
  plan();
  for (const char* method : {"awq", "gptq", "bitnet", "mxfp4", "exl3", "hqq"}) {
    const Json config = {{"quantization_config", {{"quant_method", method}}}};
    const std::string message = complaint([&] { WeightPlan(checkpoint_.get(), config); });
    expect_contains(message,
                    "quant_method \"" + std::string(method) + "\" cannot be loaded; weights in bf16, f16, f32");
    expect_contains(message, "convert");
    expect_contains(message, "see tensor l.q_proj.qweight (I32)");
    const Json nested = {{"text_config", config}};
    expect_contains(complaint([&] { WeightPlan(nullptr, nested); }), method);
  }
}

TEST_F(PlanTest, CodingsOfQuantisersAreRecognisedByTensors) {
  add("row.weight", "F8_E4M3", {6, 32});
  add("row.weight_scale", "F32", {6, 1});
  add("row.input_scale", "F32", {1});
  add("tensor.weight", "F8_E4M3", {6, 32});
  add("tensor.weight_scale", "BF16", {1});
  add("whole.weight", "I8", {6, 32});
  add("whole.weight_scale", "F32", {6, 1});
  add("packed.weight_packed", "U8", {6, 16});
  add("packed.weight_scale", "F8_E4M3", {6, 2});
  add("packed.weight_global_scale", "F32", {1});
  add("packed.input_global_scale", "F32", {1});
  add("pairs.weight", "U8", {6, 16});
  add("pairs.weight_scale", "F8_E4M3", {6, 2});
  add("pairs.weight_scale_2", "F32", {});
  add("wrong.weight", "U8", {6, 16});
  add("wrong.weight_scale", "F8_E4M3", {6, 1});
  add("wrong.weight_scale_2", "F32", {});
  add("few.weight", "I8", {6, 32});
  add("few.weight_scale", "F32", {5, 1});
  WeightPlan plan = this->plan({{"quantization_config",
                                 {{"quant_method", "compressed-tensors"},
                                  {"format", "float-quantized"},
                                  {"ignore", {"lm_head", "re:.*gate"}}}}});
  const auto format = [&](const std::string& module) {
    return name_of(plan.matrices()[static_cast<size_t>(plan.matrix(module, 6, 32).index)].format);
  };
  EXPECT_EQ(format("row"), "fp8_row");
  EXPECT_EQ(format("tensor"), "fp8_row");
  EXPECT_EQ(format("whole"), "int8_row");
  EXPECT_EQ(format("packed"), "nvfp4");
  EXPECT_EQ(format("pairs"), "nvfp4");
  expect_contains(complaint([&] { plan.matrix("wrong", 6, 32); }),
                  "wrong.weight_scale: scale grid for [6, 16] of two codes a byte in groups of 16: expected [6, 2]");
  expect_contains(complaint([&] { plan.matrix("few", 6, 32); }), "or one for each of 6 rows, found [5, 1]");
}

TEST_F(PlanTest, ConfigsOfQuantisersTellWhatIsExpected) {
  const auto expected = [](const Json& settings, const std::string& module) {
    const Json config = {{"quantization_config", settings}};
    WeightPlan plan(nullptr, config);
    return name_of(plan.matrices()[static_cast<size_t>(plan.matrix(module, 6, 32).index)].format);
  };
  const Json packed = {{"quant_method", "compressed-tensors"},
                       {"format", "nvfp4-pack-quantized"},
                       {"ignore", {"re:.*gate$", "lm_head"}}};
  EXPECT_EQ(expected(packed, "l.0.q_proj"), "nvfp4");
  EXPECT_EQ(expected(packed, "l.0.mlp.gate"), "bf16");
  EXPECT_EQ(expected({{"quant_method", "compressed-tensors"}, {"format", "int-quantized"}}, "q"), "int8_row");
  EXPECT_EQ(expected({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}, "q"), "nvfp4");
  EXPECT_EQ(expected({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}, "q"), "fp8_row");
  for (const Json& settings : {Json{{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}},
                               Json{{"quant_method", "modelopt"}, {"quant_algo", "W4A8_AWQ"}}})
    expect_contains(complaint([&] {
                      WeightPlan(nullptr, Json{{"quantization_config", settings}});
                    }),
                    "cannot be loaded; weights in bf16, f16, f32");
  expect_contains(complaint([&] {
                    expected({{"quant_method", "fp8"}, {"ignore", {"re:("}}}, "q");
                  }),
                  "quantization_config.ignore: re:( is no regular expression");
}

TEST_F(PlanTest, ConfigsThatMakeNoSenseAreRefused) {
  struct Case {
    const char* config;
    const char* message;
  };
  for (const Case& c : {
           Case{"[]", "expected an object"},
           Case{R"({"dtype":"int8"})", "dtype: expected bfloat16"},
           Case{R"({"torch_dtype":5})", "torch_dtype: expected bfloat16"},
           Case{R"({"quantization_config":"fp8"})", "quantization_config: expected an object"},
           Case{R"({"quantization_config":{}})", "quant_method (none) cannot be loaded"},
           Case{R"({"quantization_config":{"quant_method":8}})", "quant_method 8 cannot be loaded"},
           Case{R"({"quantization_config":{"quant_method":"fp8","fmt":"e5m2"}})", "fmt: expected e4m3"},
           Case{R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128]}})", "expected two numbers"},
           Case{R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[0,128]}})", "numbers from 1 to"},
           Case{R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[-1,8]}})", "numbers from 1 to"},
           Case{R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[1.5,8]}})", "numbers from 1 to"},
           Case{R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[99999999999,8]}})", "numbers"},
           Case{R"({"quantization_config":{"quant_method":"fp8","ignored_layers":"x"}})", "ignored_layers: expected a"},
           Case{R"({"quantization_config":{"quant_method":"fp8","modules_to_not_convert":[1]}})", "a list of names"},
       }) {
    SCOPED_TRACE(c.config);
    expect_contains(complaint([&] { WeightPlan(nullptr, Json::parse(c.config)); }), c.message);
  }
}

TEST(Quantization, ExemptModulesAreMatchedByTheirComponents) {
  const Json config = {
      {"torch_dtype", "float16"},
      {"quantization_config",
       {{"quant_method", "fp8"},
        {"modules_to_not_convert", {"model.language_model.layers.0.mlp.gate", "visual", "shared_expert_gate"}},
        {"ignored_layers", {"mtp.fc"}}}}};
  const Quantization quantization = read_quantization(config, nullptr);
  const auto exempt = [&](const char* module) { return quantization.expected(module) == Format(Dense{DType::F16}); };
  for (const char* module : {"model.layers.0.mlp.gate", "model.language_model.layers.0.mlp.gate", "visual.blocks.3.qkv",
                             "model.layers.7.mlp.shared_expert_gate", "mtp.fc", "lm_head", "model.embed_tokens"})
    EXPECT_TRUE(exempt(module)) << module;
  for (const char* module : {"model.layers.0.mlp.gate_proj", "model.layers.1.mlp.gate", "model.layers.0.mlp.experts.0",
                             "visualiser.x", "not_mtp.fc2", "model.layers.0.mlp.gated"})
    EXPECT_FALSE(exempt(module)) << module;
}

TEST(WeightPlan, TheBundledModelIsPlannedAlikeWithAndWithoutItsFile) {
  const std::filesystem::path folder = std::filesystem::path(BRAID_SOURCE_DIR) / "models/pocket";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "the bundled model is not there";
  const Json config = read_json(folder / "config.json");
  const Checkpoint checkpoint(folder);
  WeightPlan from_file(&checkpoint, config), from_config(nullptr, config);
  read_model(config, "config.json", from_file);
  read_model(config, "config.json", from_config);
  ASSERT_EQ(from_file.matrices().size(), from_config.matrices().size());
  ASSERT_EQ(from_file.vectors().size(), from_config.vectors().size());
  for (size_t i = 0; i < from_file.matrices().size(); ++i) {
    const PlannedMatrix &a = from_file.matrices()[i], &b = from_config.matrices()[i];
    EXPECT_EQ(a.format, b.format) << a.name;
    EXPECT_EQ(a.pieces, b.pieces) << a.name;
  }
  EXPECT_EQ(from_file.bytes(), from_config.bytes());
  EXPECT_GT(from_file.bytes(), 16'000'000);
}

}  // namespace
}  // namespace braid
