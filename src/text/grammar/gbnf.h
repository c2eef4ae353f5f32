// GBNF: grammars written as rules (`root ::= "yes" | "no"`), read into productions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/grammar/productions.h"

namespace braid {

// Adds the rules of `text`, and gives an expression that stands for its rule `root`. Literals, [classes], '.', groups,
// '|', '*', '+', '?', {m,n} and comments. A rule goes on until the next `name ::=`. Faults are Input errors that name
// the line.
ExpressionId read_gbnf(std::string_view text, Productions& productions);

}  // namespace braid
