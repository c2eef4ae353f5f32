// TokenTrie: the bytes of all tokens of a vocabulary as one tree, laid out in the order of a walk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/productions.h"

namespace braid {

class Tokenizer;

// Node 0 is the root, and the descendants of a node follow it directly. Immutable; any number of threads may read.
class TokenTrie {
 public:
  struct Token {
    int32_t id = -1;
    std::string bytes;
    bool special = false;  // no text; `bytes` is what it is written as in literals of a grammar
  };

  // Tokens without bytes are left out. `end_tokens` end a text: they are allowed exactly where it may end.
  TokenTrie(std::vector<Token> tokens, std::vector<int32_t> end_tokens);
  static std::shared_ptr<const TokenTrie> of(const Tokenizer& tokenizer, std::vector<int32_t> end_tokens);

  uint32_t nodes() const { return static_cast<uint32_t>(byte_.size()); }
  uint8_t byte(uint32_t node) const { return byte_[node]; }  // that leads to it
  uint32_t parent(uint32_t node) const { return parent_[node]; }
  uint32_t depth(uint32_t node) const { return depth_[node]; }
  uint32_t skip(uint32_t node) const { return skip_[node]; }  // the first node after its descendants
  bool is_leaf(uint32_t node) const { return skip_[node] == node + 1; }
  std::span<const int32_t> tokens(uint32_t node) const {
    return std::span(tokens_).subspan(first_token_[node], first_token_[node + 1] - first_token_[node]);
  }
  // All nodes to which `byte` leads, ascending.
  std::span<const uint32_t> nodes_of(uint8_t byte) const {
    return std::span(by_byte_).subspan(first_by_byte_[byte], first_by_byte_[byte + 1] - first_by_byte_[byte]);
  }

  int32_t highest_id() const { return highest_id_; }
  uint32_t most_bytes() const { return most_bytes_; }  // of one token
  const std::vector<int32_t>& end_tokens() const { return end_tokens_; }
  bool is_end(int32_t id) const;
  // The bytes that a grammar reads for a token: those of its text, or the mark of a special one. Empty for others.
  std::string_view bytes(int32_t id) const;

  // A literal of a grammar, with the special tokens that are written in it replaced by their marks.
  std::string mark_specials(std::string_view text) const;

 private:
  void lay_out(const std::vector<std::pair<std::string_view, int32_t>>& sorted);

  std::vector<uint8_t> byte_;
  std::vector<uint16_t> depth_;
  std::vector<uint32_t> parent_, skip_, first_token_, by_byte_, first_by_byte_;
  std::vector<int32_t> tokens_, end_tokens_;
  std::string text_;                                       // of all tokens
  std::vector<std::pair<uint32_t, uint32_t>> place_;       // by id: begin and size in text_
  std::vector<std::pair<std::string, int32_t>> specials_;  // longest first
  int32_t highest_id_ = -1;
  uint32_t most_bytes_ = 0;
};

}  // namespace braid
