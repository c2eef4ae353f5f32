// Structure: what a request may ask an answer to be, and the one way from it to a compiled grammar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "text/grammar/grammar.h"
#include "text/grammar/schema/schema.h"

namespace braid {

enum class StructureKind : uint8_t {
  Json,        // value: a JSON schema
  JsonObject,  // value is not read: any JSON object
  Regex,       // value: a string; the whole answer matches it
  Choice,      // value: a list of strings
  Grammar,     // value: a string in GBNF
  Format,      // value: literal text, schemas and free text in order (structure_format.h)
};

struct Structure {
  StructureKind kind = StructureKind::Json;
  Json value;
  SchemaOptions options;
};

// Everything that is wrong with a structure is an Input error of one line. At most about a second and some hundred MB,
// whatever it is. May run on any thread.
std::shared_ptr<const Grammar> compile_structured(const Structure& structure, std::shared_ptr<const TokenTrie> trie);

// Compiled grammars of one vocabulary, by what they were made of. When they take more than `most_bytes` those that were
// not asked for for the longest time are let go (answers that use them keep them). Any thread; compiling holds no lock.
class GrammarCache {
 public:
  static constexpr size_t kMostBytes = 256u << 20;

  explicit GrammarCache(std::shared_ptr<const TokenTrie> trie, size_t most_bytes = kMostBytes);

  std::shared_ptr<const Grammar> get(const Structure& structure);
  size_t size() const;
  const std::shared_ptr<const TokenTrie>& trie() const { return trie_; }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Grammar>>;

  std::shared_ptr<const TokenTrie> trie_;
  size_t most_bytes_;
  mutable std::mutex lock_;
  std::list<Entry> entries_;  // the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace braid
