// SPDX-License-Identifier: Apache-2.0
#include "engine/generation_config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid {
namespace {

GenerationConfig parse(const char* text) { return parse_generation_config(parse_json(text, "g.json"), "g.json"); }

TEST(GenerationConfig, ReadsWhatIsThere) {
  const GenerationConfig config = parse(
      R"({"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.05,
          "eos_token_id": [6114, 6112], "transformers_version": "5.17.0"})");
  EXPECT_EQ(config.sampling.temperature, 0.7f);
  EXPECT_EQ(config.sampling.top_k, 20);
  EXPECT_EQ(config.sampling.top_p, 0.8f);
  EXPECT_EQ(config.sampling.min_p, 0.05f);
  EXPECT_EQ(config.sampling.penalties.repetition, 1.05f);
  EXPECT_EQ(config.end_tokens, (std::vector<int32_t>{6114, 6112}));
}

TEST(GenerationConfig, IsNeutralWhereNothingIsSaid) {
  for (const char* text : {"{}", R"({"temperature": null, "top_k": null, "eos_token_id": null, "do_sample": null})"}) {
    const GenerationConfig config = parse(text);
    EXPECT_EQ(config.sampling.temperature, 1.0f);
    EXPECT_EQ(config.sampling.top_k, 0);
    EXPECT_EQ(config.sampling.top_p, 1.0f);
    EXPECT_EQ(config.sampling.min_p, 0.0f);
    EXPECT_EQ(config.sampling.penalties.repetition, 1.0f);
    EXPECT_TRUE(config.end_tokens.empty());
  }
}

TEST(GenerationConfig, WithoutSamplingItIsGreedy) {
  EXPECT_EQ(parse(R"({"do_sample": false, "temperature": 0.7})").sampling.temperature, 0.0f);
}

TEST(GenerationConfig, TakesOneEndTokenAndTopKOff) {
  EXPECT_EQ(parse(R"({"eos_token_id": 2})").end_tokens, std::vector<int32_t>{2});
  EXPECT_EQ(parse(R"({"top_k": -1})").sampling.top_k, 0);
}

TEST(GenerationConfig, ErrorsNameTheKey) {
  const auto error = [](const char* text) -> std::string {
    try {
      parse(text);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.kind(), ErrorKind::Input);
      return refused.message();
    }
    return "accepted";
  };
  EXPECT_EQ(error("[]"), "g.json: expected an object, found array");
  EXPECT_EQ(error(R"({"temperature": -0.5})"), "g.json: temperature: expected a number from 0, found -0.5");
  EXPECT_EQ(error(R"({"temperature": "hot"})"), "g.json: temperature: expected a number from 0, found \"hot\"");
  EXPECT_EQ(error(R"({"temperature": Infinity})"), "g.json: temperature: expected a number from 0, found 1e+308");
  EXPECT_EQ(error(R"({"temperature": true})"), "g.json: temperature: expected a number from 0, found true");
  EXPECT_EQ(error(R"({"top_p": 1.01})"), "g.json: top_p: expected a number from 0 to 1, found 1.01");
  EXPECT_EQ(error(R"({"min_p": [1]})"), "g.json: min_p: expected a number from 0 to 1, found [1]");
  EXPECT_EQ(error(R"({"top_k": 2.5})"), "g.json: top_k: expected a whole number from 0, found 2.5");
  EXPECT_EQ(error(R"({"top_k": 18446744073709551615})"),
            "g.json: top_k: expected a whole number from 0, found 18446744073709551615");
  EXPECT_EQ(error(R"({"repetition_penalty": 0})"), "g.json: repetition_penalty: expected a number above 0, found 0");
  EXPECT_EQ(error(R"({"do_sample": 1})"), "g.json: do_sample: expected true or false, found 1");
  EXPECT_EQ(error(R"({"eos_token_id": -1})"), "g.json: eos_token_id: expected a token id or a list of them, found -1");
  EXPECT_EQ(error(R"({"eos_token_id": [1, "2"]})"),
            "g.json: eos_token_id: expected a token id or a list of them, found \"2\"");
  EXPECT_EQ(error(R"({"eos_token_id": 1e300})"),
            "g.json: eos_token_id: expected a token id or a list of them, found 1e+300");
}

TEST(SamplingOverrides, WhatIsSaidGoesOverTheDefaultsAndNothingElseChanges) {
  const Sampling defaults{.temperature = 0.7f, .top_k = 20, .top_p = 0.8f};
  const Sampling same = with_overrides(defaults, {});
  EXPECT_EQ(same.temperature, 0.7f);
  EXPECT_EQ(same.top_k, 20);
  const Sampling out = with_overrides(
      defaults,
      {.temperature = 0.0f, .min_p = 0.1f, .repetition = 1.1f, .frequency = 0.2f, .presence = 0.3f, .top_k = 0});
  EXPECT_EQ(out.temperature, 0.0f);
  EXPECT_EQ(out.top_k, 0);
  EXPECT_EQ(out.top_p, 0.8f);
  EXPECT_EQ(out.min_p, 0.1f);
  EXPECT_EQ(out.penalties.repetition, 1.1f);
  EXPECT_EQ(out.penalties.frequency, 0.2f);
  EXPECT_EQ(out.penalties.presence, 0.3f);
}

}  // namespace
}  // namespace braid
