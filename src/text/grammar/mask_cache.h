// MaskCache: which tokens of a vocabulary may come next, remembered by where in a grammar a text is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/frontier.h"
#include "text/grammar/token_trie.h"

namespace braid {

// Bit i mod 32 of word i / 32 is token i.
void set_bit(std::span<int32_t> words, int32_t token);

// Most tokens are settled by the state alone, whoever called its rule. Those that leave the rule are settled by the
// state that is returned to, and so on down the calls: an entry is a state and the states below it as far as they
// matter. Entries are made when they are first needed; those unused for long go when `most_bytes` are full.
//
// Any number of threads may call it at the same time; one at a time proceeds.
class MaskCache {
 public:
  MaskCache(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie, size_t most_bytes);
  ~MaskCache();

  // Sets the bits of all tokens that may come after `mark` of `frontier`. The words reach the trie's highest id.
  void add(const Frontier& frontier, const Frontier::Mark& mark, std::span<int32_t> words);
  // Makes the entries that take longest: those of states from which most tokens go on.
  void prepare();
  size_t bytes() const;

 private:
  struct Table;
  struct Entry;
  struct NodeCounts;
  struct Window {
    uint32_t least = 0, most = kUnbounded;
  };
  struct Found {
    int32_t token;
    uint32_t count;
  };
  struct Collected;
  using Entries = std::unordered_map<uint64_t, std::unique_ptr<Entry>>;

  Entry& entry_of_state(uint32_t state);
  Entry& entry_of_body(uint32_t state);
  Entry& entry_below(Entry& above, Place back);
  std::unique_ptr<Entry> make_entry(const Entry* above, Collected collected);

  bool visit(Entry& entry, const Frontier& frontier, uint32_t node);
  void apply(const Entry& entry);
  bool counts_characters(uint32_t state, Place back) const;
  Window window_of(Place back) const;
  uint64_t key_of(Place back) const;

  void walk(Frontier& frontier, uint32_t root, const Frontier::Mark& at_root, Collected& out);
  void resolve(const NodeCounts& pending, const Frontier::Mark& start, Collected& out);
  void settle(uint32_t node, const Frontier::Mark& mark, Collected& out);
  void evict();

  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const TokenTrie> trie_;
  size_t most_bytes_, bytes_ = 0;
  mutable std::mutex lock_;
  Frontier frontier_;                  // for walks from unknown callers
  std::vector<Frontier::Mark> marks_;  // of the walk under way, by depth
  Entries by_state_, by_body_;
  uint64_t clock_ = 0;
  // Of the mask under way.
  std::span<int32_t> words_;
  Window window_;
  int chains_ = 0;
};

}  // namespace braid
