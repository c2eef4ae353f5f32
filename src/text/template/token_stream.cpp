// SPDX-License-Identifier: Apache-2.0
#include "text/template/token_stream.h"

namespace braid::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::Name:
    case TokenKind::Operator:
      return fmt::format("'{}'", token.text);
    case TokenKind::String:
      return "a string";
    case TokenKind::Number:
      return fmt::format("the number {}", token.text);
    case TokenKind::PrintEnd:
      return "the end of the print statement";
    case TokenKind::BlockEnd:
      return "the end of the tag";
    case TokenKind::End:
      return "the end of the template";
    default:
      return "text";
  }
}

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::Name:
      return "a name";
    case TokenKind::BlockEnd:
      return "the end of the tag";
    case TokenKind::PrintEnd:
      return "the end of the print statement";
    default:
      return "another token";
  }
}

}  // namespace

bool TokenStream::at_name(std::string_view word, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Name && peek(ahead).text == word;
}

bool TokenStream::at_operator(std::string_view symbol, size_t ahead) const {
  return peek(ahead).kind == TokenKind::Operator && peek(ahead).text == symbol;
}

bool TokenStream::take_name(std::string_view word) {
  const bool here = at_name(word);
  if (here) take();
  return here;
}

bool TokenStream::take_operator(std::string_view symbol) {
  const bool here = at_operator(symbol);
  if (here) take();
  return here;
}

Token TokenStream::expect(TokenKind kind) {
  if (!at_kind(kind)) unexpected(describe(kind));
  return take();
}

void TokenStream::expect_operator(std::string_view symbol) {
  if (!take_operator(symbol)) unexpected(fmt::format("'{}'", symbol));
}

void TokenStream::expect_name(std::string_view word) {
  if (!take_name(word)) unexpected(fmt::format("'{}'", word));
}

void TokenStream::unexpected(std::string_view wanted) const {
  throw SyntaxFault{line(), fmt::format("expected {}, found {}", wanted, describe(peek()))};
}

}  // namespace braid::jinja
