// Random schemas over the bundled vocabulary: every text that masks allow is valid, and every value can be written.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "text/grammar/matcher.h"
#include "text/grammar/random_schema_test.h"
#include "text/grammar/structure.h"
#include "text/tokenizer/tokenizer.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int kSchemas = 300;

std::shared_ptr<const TokenTrie> bundled_trie() {
  static const auto trie = [] {
    const Tokenizer tokenizer = Tokenizer::load(fs::path(BRAID_SOURCE_DIR) / "models" / "pocket");
    return TokenTrie::of(tokenizer, {tokenizer.eos().value()});
  }();
  return trie;
}

std::vector<int32_t> tokens_of(const std::vector<int32_t>& words) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < words.size(); ++i) {
    for (auto bits = static_cast<uint32_t>(words[i]); bits != 0; bits &= bits - 1) {
      tokens.push_back(static_cast<int32_t>(i * 32) + __builtin_ctz(bits));
    }
  }
  return tokens;
}

// A walk by masks alone, until the text may end.
std::string walk(const std::shared_ptr<const Grammar>& grammar, TestRandom& random) {
  constexpr int kMostTokens = 20'000;
  std::vector<int32_t> words(static_cast<size_t>(grammar->trie().highest_id()) / 32 + 1);
  Matcher matcher(grammar);
  std::string text;
  for (int step = 0; step < kMostTokens && !matcher.is_over(); ++step) {
    matcher.mask(words);
    const std::vector<int32_t> allowed = tokens_of(words);
    if (allowed.empty()) {
      ADD_FAILURE() << "nothing may follow " << text;
      return text;
    }
    const int32_t token = allowed[random.below(allowed.size())];
    if (!matcher.advance(token)) {
      ADD_FAILURE() << "token " << token << " of the mask is not taken after " << text;
      return text;
    }
    if (grammar->trie().is_end(token)) return text;
    text += grammar->trie().bytes(token);
  }
  EXPECT_TRUE(matcher.may_end() || matcher.is_over()) << text;
  return text;
}

// Token by token in random pieces; at some positions the token that comes next must be in the mask.
void expect_taken(const std::shared_ptr<const Grammar>& grammar, const std::string& text, TestRandom& random) {
  const TokenTrie& trie = grammar->trie();
  std::vector<int32_t> words(static_cast<size_t>(trie.highest_id()) / 32 + 1);
  Matcher matcher(grammar);
  for (size_t at = 0; at < text.size();) {
    std::vector<std::pair<int32_t, size_t>> fitting;  // tokens that the text goes on with, and their sizes
    uint32_t node = 0;
    for (size_t end = at; end < text.size(); ++end) {
      uint32_t child = node + 1;
      while (child < trie.skip(node) && trie.byte(child) != static_cast<uint8_t>(text[end])) child = trie.skip(child);
      if (child >= trie.skip(node)) break;
      node = child;
      for (const int32_t token : trie.tokens(node)) fitting.emplace_back(token, end + 1 - at);
    }
    ASSERT_FALSE(fitting.empty()) << text.substr(at);
    const auto [token, size] = fitting[random.below(fitting.size())];
    matcher.mask(words);
    ASSERT_TRUE(has_bit(words, token)) << text.substr(0, at) << " | " << text.substr(at, size);
    ASSERT_TRUE(matcher.advance(token)) << text.substr(0, at) << " | " << text.substr(at, size);
    at += size;
  }
  ASSERT_TRUE(matcher.may_end()) << text;
}

TEST(SchemaWalk, ValuesOfRandomSchemasCanBeWritten) {
  TestRandom random{std::mt19937_64(5)};
  RandomSchemas schemas(random);
  for (int i = 0; i < kSchemas; ++i) {
    const Json schema = schemas.document();
    SCOPED_TRACE(schema.dump());
    const auto grammar = compile_structured({StructureKind::Json, schema}, bundled_trie());
    for (int j = 0; j < 3; ++j) {
      const Json value = schemas.value(schema, schema);
      expect_taken(grammar, value.dump(j == 0 ? -1 : 2), random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(SchemaWalk, MasksAgreeWithEveryTokenOfTheVocabulary) {
  TestRandom random{std::mt19937_64(6)};
  RandomSchemas schemas(random);
  for (int i = 0; i < 12; ++i) {
    const Json schema = schemas.document();
    SCOPED_TRACE(schema.dump());
    const auto grammar = compile_structured({StructureKind::Json, schema}, bundled_trie());
    const int32_t highest = grammar->trie().highest_id();
    std::vector<int32_t> words(static_cast<size_t>(highest) / 32 + 1);
    Matcher matcher(grammar);
    for (int step = 0; step < 40; ++step) {
      matcher.mask(words);
      for (int32_t token = 0; token <= highest; ++token) {
        const bool taken = matcher.advance(token);
        if (taken) matcher.rollback(1);
        ASSERT_EQ(taken, has_bit(words, token)) << "token " << token << " step " << step;
      }
      const std::vector<int32_t> allowed = tokens_of(words);
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher.advance(allowed[random.below(allowed.size())]));
    }
  }
}

// The same walks on several threads at once, over one grammar, give the same texts; so does one whose masks
// have so little room that they are let go all the time.
TEST(SchemaWalk, ThreadsShareAGrammar) {
  TestRandom random{std::mt19937_64(8)};
  const Json schema = RandomSchemas(random).document();
  const Structure structure{StructureKind::Json, schema};
  constexpr int kThreads = 4, kWalks = 8;
  const auto walks = [&](const std::shared_ptr<const Grammar>& grammar) {
    TestRandom own{std::mt19937_64(1)};
    std::vector<std::string> texts;
    for (int i = 0; i < kWalks; ++i) texts.push_back(walk(grammar, own));
    return texts;
  };
  const std::vector<std::string> expected = walks(compile_structured(structure, bundled_trie()));
  GrammarCache cache(bundled_trie());
  std::vector<std::vector<std::string>> texts(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<std::string>& own : texts) threads.emplace_back([&] { own = walks(cache.get(structure)); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& own : texts) EXPECT_EQ(own, expected);
  EXPECT_EQ(cache.size(), 1u);

  Productions productions;
  const RuleId start = productions.declare("start");
  productions.define(start, schema_expression(schema, productions, {}));
  constexpr size_t kLittle = 1u << 16;
  const auto narrow = std::make_shared<const Grammar>(productions, bundled_trie(), kLittle);
  EXPECT_EQ(walks(narrow), expected);
}

TEST(SchemaWalk, WhatMasksAllowIsValidForAnIndependentValidator) {
  const fs::path npm = fs::path(BRAID_SOURCE_DIR) / "tests" / "npm";
  const fs::path lines = fs::path(BRAID_BINARY_DIR) / "schema_walks.jsonl";
  std::ofstream out(lines);
  TestRandom random{std::mt19937_64(9)};
  RandomSchemas schemas(random);
  for (int i = 0; i < kSchemas; ++i) {
    const Json schema = schemas.document();
    const auto grammar = compile_structured({StructureKind::Json, schema}, bundled_trie());
    for (int j = 0; j < 3; ++j) {
      const std::string text = walk(grammar, random);
      if (HasFailure()) return;
      out << Json{{"schema", schema}, {"text", text}}.dump() << '\n';
    }
  }
  out.close();
  if (!fs::exists(npm / "node_modules" / "ajv") || std::system("command -v node >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "npm package ajv, or node, is not installed (npm ci in tests/npm)";
  }
  const std::string command = "cd '" + npm.string() + "' && node validate_schemas.cjs '" + lines.string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace braid
