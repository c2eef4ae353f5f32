// Front ends by kind, and the cache.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/structure.h"

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/regex.h"
#include "text/grammar/spelling.h"
#include "text/grammar/structure_format.h"

namespace braid {
namespace {

const std::string& text_of(const Json& value, const char* what) {
  if (!value.is_string()) fail("{}: expected a string", what);
  return value.get_ref<const std::string&>();
}

ExpressionId choice_expression(const Json& value, Productions& productions) {
  if (!value.is_array() || value.empty()) fail("choice: expected a list of strings");
  std::vector<ExpressionId> ways;
  for (const Json& each : value) {
    const std::string& text = text_of(each, "choice");
    if (!is_utf8(text)) fail("choice: not valid UTF-8");
    ways.push_back(productions.bytes(text));
  }
  return productions.choice(std::move(ways));
}

ExpressionId expression_of(const Structure& structure, Productions& productions, const TokenTrie& trie) {
  switch (structure.kind) {
    case StructureKind::Json:
      return schema_expression(structure.value, productions, structure.options);
    case StructureKind::JsonObject:
      return json_object_expression(productions, structure.options);
    case StructureKind::Regex: {
      const Regex regex = parse_regex(text_of(structure.value, "regex"), RegexScope::Whole);
      return Spelling(productions, SpelledAs::Text).pattern(regex);
    }
    case StructureKind::Choice:
      return choice_expression(structure.value, productions);
    case StructureKind::Grammar:
      return read_gbnf(text_of(structure.value, "grammar"), productions);
    case StructureKind::Format:
      return format_expression(structure.value, productions, {trie, structure.options});
  }
  fail(ErrorKind::Internal, "no such kind of structure");
}

}  // namespace

std::shared_ptr<const Grammar> compile_structured(const Structure& structure, std::shared_ptr<const TokenTrie> trie) {
  Productions productions;
  const RuleId start = productions.declare("start");
  productions.define(start, expression_of(structure, productions, *trie));
  return std::make_shared<const Grammar>(productions, std::move(trie));
}

GrammarCache::GrammarCache(std::shared_ptr<const TokenTrie> trie, size_t most_bytes)
    : trie_(std::move(trie)), most_bytes_(most_bytes) {}

std::shared_ptr<const Grammar> GrammarCache::get(const Structure& structure) {
  std::string key;
  key += static_cast<char>(structure.kind);
  key += static_cast<char>(structure.options.space);
  key += structure.options.closed_objects ? '1' : '0';
  if (structure.kind != StructureKind::JsonObject) {
    key += structure.value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const auto find = [&]() -> std::shared_ptr<const Grammar> {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->second;
  };
  {
    const std::lock_guard guard(lock_);
    if (auto known = find()) return known;
  }
  auto made = compile_structured(structure, trie_);
  const std::lock_guard guard(lock_);
  if (auto known = find()) return known;  // another thread was faster
  entries_.emplace_front(key, made);
  by_key_[key] = entries_.begin();
  size_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    bytes += entry->first.size() + entry->second->bytes();
    if (bytes > most_bytes_ && entry != entries_.begin()) {
      by_key_.erase(entry->first);
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
  return made;
}

size_t GrammarCache::size() const {
  const std::lock_guard guard(lock_);
  return entries_.size();
}

}  // namespace braid
