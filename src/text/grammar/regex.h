// Regex: a regular expression as a tree, in the syntax that ECMAScript and Python share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/grammar/code_points.h"
#include "text/grammar/productions.h"

namespace braid {

struct Regex {
  enum class Kind : uint8_t { Characters, Sequence, Choice, Repeat, Start, End };
  Kind kind = Kind::Sequence;
  CodePointSet characters;       // Characters: one of these
  std::vector<Regex> parts;      // Sequence (none: the empty text), Choice, Repeat (one)
  uint32_t least = 0, most = 0;  // Repeat; most may be kUnbounded
};

// Where a pattern must match: the whole text, or anywhere in it (as JSON schema has it).
enum class RegexScope : uint8_t { Whole, Search };

// The result has no Start and End: what they say, and the scope, is in the tree. An Input error names what is not
// supported, or not well-formed, and where in the text: look-around, back-references, word borders, flags, anchors
// in the middle.
Regex parse_regex(std::string_view text, RegexScope scope);

}  // namespace braid
