// Small vocabularies and random numbers for the tests of grammars.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/grammar/token_trie.h"

namespace braid {

struct TestRandom {
  std::mt19937_64 bits;
  // Below `limit`.
  uint64_t below(uint64_t limit) { return bits() % limit; }
};

inline constexpr int32_t kTestEnd = 0;

// Token 0 ends a text; the others are `texts`, in their order.
inline std::shared_ptr<const TokenTrie> trie_of(const std::vector<std::string>& texts) {
  std::vector<TokenTrie::Token> tokens{{kTestEnd, "<end>", true}};
  for (const std::string& text : texts) tokens.push_back({static_cast<int32_t>(tokens.size()), text, false});
  return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<int32_t>{kTestEnd});
}

// All bytes of `alphabet` alone, and random tokens over them.
inline std::vector<std::string> tokens_over(const std::string& alphabet, TestRandom& random, int count) {
  std::set<std::string> texts;
  for (const char c : alphabet) texts.insert(std::string(1, c));
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (uint64_t length = 1 + random.below(6); length > 0; --length) text += alphabet[random.below(alphabet.size())];
    texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

inline bool has_bit(const std::vector<int32_t>& words, int32_t token) {
  return ((static_cast<uint32_t>(words[static_cast<size_t>(token) / 32]) >> (token % 32)) & 1) != 0;
}

}  // namespace braid
