// FreeText: any text up to one of some strings, as an automaton over bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "text/grammar/productions.h"

namespace braid {

// A graph under construction: `text` may end in every state of `inside` without one of the strings in it; state
// `complete[i]` is where strings[i] has just ended, for the first time in the text. Strings may hold marks of special
// tokens (kSpecialByte); other special tokens are no text. Bytes are not checked to be UTF-8.
struct FreeText {
  ExpressionGraph graph;
  std::vector<uint32_t> inside, complete;
};

// The strings are not empty.
FreeText text_until(const std::vector<std::string>& strings, Productions& productions);

}  // namespace braid
