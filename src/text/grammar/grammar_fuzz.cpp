// Fuzz target: bytes as a structure of some kind; what compiles gives masks that hold what may come, along a walk.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/grammar/matcher.h"
#include "text/grammar/structure.h"
#include "text/grammar/vocabularies_test.h"

namespace {

std::shared_ptr<const braid::TokenTrie> trie() {
  static const auto made =
      braid::trie_of({"a", "b", "{", "}",    "[", "]",  "\"", ":",    ",",    "{\"",      "\":", "\", \"", "1",
                      "0", "-", ".", "true", " ", "\n", "ab", "\xC3", "\xA9", "\xC3\xA9", "x",   "null"});
  return made;
}

void walk(const std::shared_ptr<const braid::Grammar>& grammar, uint64_t seed) {
  braid::Matcher matcher(grammar);
  std::vector<int32_t> words(1);
  for (int step = 0; step < 16; ++step) {
    matcher.mask(words);
    int32_t chosen = -1;
    for (int32_t token = 0; token <= grammar->trie().highest_id(); ++token) {
      const bool taken = matcher.advance(token);
      CHECK(taken == braid::has_bit(words, token), "token={} step={}", token, step);
      if (!taken) continue;
      matcher.rollback(1);
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      if (chosen < 0 || (seed >> 60) < 4) chosen = token;
    }
    if (chosen < 0) return;
    matcher.advance(chosen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  if (size < 2) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto kind = static_cast<StructureKind>(data[0] % 6);
  try {
    const bool is_text = kind == StructureKind::Regex || kind == StructureKind::Grammar;
    const Json value = is_text ? Json(text) : parse_json(text, "fuzz");
    walk(compile_structured({kind, value}, trie()), size);
  } catch (const Error&) {
    // Refused.
  }
  return 0;
}
