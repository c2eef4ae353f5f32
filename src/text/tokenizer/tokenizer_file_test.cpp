// What is in a tokenizer.json and its neighbours: refusals with their place, and the configuration.
// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {
namespace {

// A small complete file as JSON.
Json small() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 6, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5},
              "merges": ["a b", ["b", "c"], ["ab", "c"]]}
  })");
}

std::string error_of(const Json& file) {
  try {
    Tokenizer::from_json(file.dump());
  } catch (const Error& error) {
    return error.what();
  }
  return "loads";
}

// The error after the value at `path` (a JSON pointer) is set.
std::string error_with(const std::string& path, const Json& value) {
  Json file = small();
  file[Json::json_pointer(path)] = value;
  return error_of(file);
}

TEST(TokenizerFile, BothFormsOfMergesAreRead) {
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump());
  EXPECT_EQ(tokenizer.encode("abc<s>bc"), (std::vector<int32_t>{4, 6, 5}));
  EXPECT_EQ(tokenizer.size(), 7);
}

TEST(TokenizerFile, PartsFromElsewhereMakeTheSameTokenizer) {
  TokenizerFile file;
  file.rest = small();
  file.rest["model"]["vocab"] = Json::object();
  file.rest["model"]["merges"] = Json::array();
  const Json whole = small();
  for (const auto& [token, id] : whole["model"]["vocab"].items()) file.vocabulary.add(token, id.get<int64_t>());
  file.merges = {{"a", "b"}, {"b", "c"}, {"ab", "c"}};
  file.has_merges = true;
  EXPECT_EQ(Tokenizer::from_file(std::move(file)).encode("abc<s>bc"), (std::vector<int32_t>{4, 6, 5}));
}

TEST(TokenizerFile, UnknownTypesAreRefusedWithTheirPlace) {
  const Json odd = Json::parse(R"({"type": "Odd"})");
  EXPECT_EQ(error_with("/normalizer", odd), "normalizer.type: unknown normalizer 'Odd'");
  EXPECT_EQ(error_with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {odd}}}),
            "pre_tokenizer.pretokenizers[0].type: unknown pre-tokenizer 'Odd'");
  EXPECT_EQ(error_with("/post_processor", odd), "post_processor.type: unknown post-processor 'Odd'");
  EXPECT_EQ(error_with("/decoder", {{"type", "Sequence"}, {"decoders", {odd}}}),
            "decoder.decoders[0].type: unknown decoder 'Odd'");
  EXPECT_EQ(error_with("/model/type", "Unigram"), "model.type: the model 'Unigram' is not supported, only BPE is");
  EXPECT_EQ(error_with("/model/type", "WordPiece"), "model.type: the model 'WordPiece' is not supported, only BPE is");
  EXPECT_EQ(error_with("/model/dropout", 0.1), "model.dropout: is not supported");
  EXPECT_EQ(error_with("/model/end_of_word_suffix", "</w>"), "model.end_of_word_suffix: is not supported");
  EXPECT_EQ(error_with("/pre_tokenizer/use_regex", 1), "pre_tokenizer.use_regex: expected true or false");
  EXPECT_EQ(error_with("/added_tokens/0/special", nullptr), "added_tokens[0].special: expected true or false");
}

TEST(TokenizerFile, FaultyTablesAreRefusedWithTheirPlace) {
  EXPECT_EQ(error_with("/model/merges/1", "b"), "model.merges[1]: 'b' is not two parts with one space between");
  EXPECT_EQ(error_with("/model/merges/1", {"b"}), "model.merges[1]: expected two parts, found 1");
  EXPECT_EQ(error_with("/model/merges/1", 3), "model.merges[1]: expected a string or a pair of strings");
  EXPECT_EQ(error_with("/model/merges/1", {"b", "x"}), "model.merges[1]: 'x' is not in the vocabulary");
  EXPECT_EQ(error_with("/model/merges/1", {"a", "c"}), "model.merges[1]: 'ac' is not in the vocabulary");
  EXPECT_EQ(error_with("/model/vocab/a", "0"), "model.vocab: the id of 'a' is not a whole number");
  EXPECT_EQ(error_with("/model/vocab/a", -1), "model.vocab: the id of token 'a' is -1, outside 0..4194303");
  EXPECT_EQ(error_with("/model/vocab/a", 4'000'000'000),
            "model.vocab: the id of token 'a' is 4000000000, outside 0..4194303");
  EXPECT_EQ(error_with("/model/vocab", nullptr), "model: a BPE model needs a vocab object and a merges array");
  EXPECT_EQ(error_with("/model/merges", nullptr), "model: a BPE model needs a vocab object and a merges array");
}

TEST(TokenizerFile, WhatIsNoJsonIsRefused) {
  EXPECT_THROW(Tokenizer::from_json(""), Error);
  EXPECT_THROW(Tokenizer::from_json("[]"), Error);
  EXPECT_THROW(Tokenizer::from_json("{\"model\": {"), Error);
  EXPECT_THROW(Tokenizer::from_json(std::string(100'000, '[')), Error);
  EXPECT_THROW(Tokenizer::load("/nonexistent"), Error);
}

TEST(TokenizerFile, AddedTokensAreNumberedOnFromTheVocabulary) {
  Json file = small();
  file["added_tokens"][0]["id"] = 100;
  EXPECT_EQ(Tokenizer::from_json(file.dump()).token_to_id("<s>"), 6);
  file["added_tokens"][0]["content"] = "ab";
  EXPECT_EQ(Tokenizer::from_json(file.dump()).token_to_id("ab"), 3);
}

TEST(TokenizerFile, AnIdBetweenOthersMayBeWithoutAToken) {
  Json file = small();
  file["model"]["vocab"]["abc"] = 9;
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_EQ(tokenizer.size(), 10);
  EXPECT_FALSE(tokenizer.has(4));
  EXPECT_EQ(tokenizer.piece(4), "");
  EXPECT_EQ(tokenizer.decode(std::vector{9, 4, 8, 0}), "abca");
}

TEST(TokenizerFile, UnknownCharacterWithoutUnknownTokenIsAnErrorOnlyWhenMet) {
  Json file = small();
  file["model"]["unk_token"] = "<unk>";
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_EQ(tokenizer.encode("ab"), std::vector<int32_t>{3});
  EXPECT_THROW(tokenizer.encode("x"), Error);
  EXPECT_EQ(tokenizer.encode("ab"), std::vector<int32_t>{3});
}

TEST(TokenizerConfig, TokensAreStringsOrObjects) {
  const TokenizerConfig config = read_tokenizer_config(
      Json::parse(R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "ab", "pad_token": null,
                      "unk_token": "gone", "add_bos_token": true, "model_max_length": 1e30})"));
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump(), config);
  EXPECT_EQ(tokenizer.bos(), 6);
  EXPECT_EQ(tokenizer.eos(), 3);
  EXPECT_EQ(tokenizer.pad(), std::nullopt);
  EXPECT_EQ(tokenizer.config().unk_token, "gone");
  EXPECT_EQ(tokenizer.config().add_bos_token, true);
  EXPECT_EQ(tokenizer.config().add_eos_token, std::nullopt);
  EXPECT_EQ(tokenizer.chat_template(), nullptr);
}

TEST(TokenizerConfig, TemplatesHaveNames) {
  TokenizerConfig config = read_tokenizer_config(Json::parse(R"({"chat_template": "one"})"));
  EXPECT_EQ(config.chat_templates, (std::map<std::string, std::string>{{"default", "one"}}));
  config = read_tokenizer_config(Json::parse(
      R"({"chat_template": [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}]})"));
  const Tokenizer tokenizer = Tokenizer::from_json(small().dump(), config);
  EXPECT_EQ(*tokenizer.chat_template(), "one");
  EXPECT_EQ(*tokenizer.chat_template("tool_use"), "two");
  EXPECT_EQ(tokenizer.chat_template("rag"), nullptr);
  try {
    read_tokenizer_config(Json::parse(R"({"chat_template": [{"name": 1, "template": ""}]})"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "chat_template[0].name: expected a string");
  }
}

TEST(TokenizerConfig, TemplateFilesWin) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "tokenizer_config_test";
  std::filesystem::create_directories(folder / "additional_chat_templates");
  const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(folder / name) << text; };
  write("tokenizer.json", small().dump());
  EXPECT_EQ(Tokenizer::load(folder).chat_template(), nullptr);
  write("tokenizer_config.json", R"({"chat_template": "in the configuration", "eos_token": 5})");
  try {
    Tokenizer::load(folder);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), (folder / "tokenizer_config.json").string() + ": eos_token: expected a string");
  }
  write("tokenizer_config.json", R"({"chat_template": "in the configuration"})");
  EXPECT_EQ(*Tokenizer::load(folder).chat_template(), "in the configuration");
  write("chat_template.jinja", "in a file");
  write("additional_chat_templates/rag.jinja", "another");
  EXPECT_EQ(*Tokenizer::load(folder).chat_template(), "in a file");
  EXPECT_EQ(*Tokenizer::load(folder).chat_template("rag"), "another");
  write("tokenizer.json", "{}");
  try {
    Tokenizer::load(folder);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(error.message().starts_with((folder / "tokenizer.json").string() + ": model")) << error.what();
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace braid
