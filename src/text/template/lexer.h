// Lexer: cuts a template's source into text and the tokens inside its tags, with Jinja's rules for white space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/template/value.h"

namespace braid::jinja {

enum class TokenKind { Data, PrintBegin, PrintEnd, BlockBegin, BlockEnd, Name, String, Number, Operator, End };

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // the name, operator, string (escapes resolved) or data
  Value number;      // of a Number
};

// A fault in the source, at a line.
struct SyntaxFault {
  int line;
  std::string message;
};

// trim_blocks and lstrip_blocks are on; one newline at the end of the source is dropped. Throws SyntaxFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace braid::jinja
