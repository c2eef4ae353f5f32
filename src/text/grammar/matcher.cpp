// A stack of marks in a frontier, one for each token.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/matcher.h"

#include <algorithm>

#include "base/error.h"

namespace braid {

Grammar::Grammar(const Productions& productions, std::shared_ptr<const TokenTrie> trie, size_t mask_bytes)
    : automaton_(std::make_shared<const Automaton>(productions)),
      trie_(std::move(trie)),
      masks_(std::make_unique<MaskCache>(automaton_, trie_, mask_bytes)) {
  masks_->prepare();
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), frontier_(grammar_->automaton()), marks_{frontier_.begin()} {}

void Matcher::mask(std::span<int32_t> words) const {
  std::fill(words.begin(), words.end(), 0);
  if (closed_) return;
  const TokenTrie& trie = grammar_->trie();
  CHECK(static_cast<int64_t>(words.size()) * 32 > trie.highest_id(), "words={}", words.size());
  grammar_->masks().add(frontier_, marks_.back(), words);
  if (!may_end()) return;
  for (const int32_t token : trie.end_tokens()) {
    if (token >= 0 && static_cast<size_t>(token) < words.size() * 32) set_bit(words, token);
  }
}

bool Matcher::advance(int32_t token) {
  if (closed_) return false;
  if (grammar_->trie().is_end(token)) {
    if (!may_end()) return false;
    closed_ = true;
    marks_.push_back(marks_.back());
    return true;
  }
  const std::string_view bytes = grammar_->trie().bytes(token);
  if (bytes.empty()) return false;
  Frontier::Mark mark = marks_.back();
  for (const char byte : bytes) {
    mark = frontier_.advance(mark, static_cast<uint8_t>(byte));
    if (mark.dead()) return false;
  }
  marks_.push_back(frontier_.join(marks_.back(), mark));
  return true;
}

void Matcher::rollback(int64_t tokens) {
  CHECK(tokens >= 0 && tokens <= length(), "tokens={} length={}", tokens, length());
  if (tokens == 0) return;
  closed_ = false;
  marks_.resize(marks_.size() - static_cast<size_t>(tokens));
}

bool Matcher::is_over() const { return closed_ || frontier_.heads(marks_.back()).empty(); }

}  // namespace braid
