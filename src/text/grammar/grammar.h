// Grammar: a compiled grammar over one vocabulary, and the masks that are known of it so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "text/grammar/automaton.h"
#include "text/grammar/mask_cache.h"
#include "text/grammar/productions.h"
#include "text/grammar/token_trie.h"

namespace braid {

// Any number of matchers on any threads may share one.
class Grammar {
 public:
  static constexpr size_t kMaskBytes = 64u << 20;

  // Throws an Input error for a grammar that matches nothing or is too complex.
  Grammar(const Productions& productions, std::shared_ptr<const TokenTrie> trie, size_t mask_bytes = kMaskBytes);

  const Automaton& automaton() const { return *automaton_; }
  const TokenTrie& trie() const { return *trie_; }
  MaskCache& masks() const { return *masks_; }
  size_t bytes() const { return automaton_->bytes() + masks_->bytes(); }

 private:
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const TokenTrie> trie_;
  std::unique_ptr<MaskCache> masks_;
};

}  // namespace braid
