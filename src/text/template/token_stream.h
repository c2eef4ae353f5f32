// TokenStream: the tokens of a template and how far they have been read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/lexer.h"

namespace braid::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_.back(); }
  int line() const { return peek().line; }
  bool at_kind(TokenKind kind) const { return peek().kind == kind; }
  bool at_name(std::string_view word, size_t ahead = 0) const;
  bool at_operator(std::string_view symbol, size_t ahead = 0) const;
  bool take_name(std::string_view word);
  bool take_operator(std::string_view symbol);
  // The token that must stand here; a SyntaxFault otherwise.
  Token expect(TokenKind kind);
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view word);
  [[noreturn]] void unexpected(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace braid::jinja
