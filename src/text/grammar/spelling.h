// Spelling: how the characters of a text are written, as they are or inside a JSON string.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/grammar/productions.h"
#include "text/grammar/regex.h"

namespace braid {

enum class SpelledAs : uint8_t { Text, JsonString };

// Each character has one spelling: in a JSON string that of JSON.stringify, which escapes quotes, backslashes and
// control characters only. Expressions are shared by equal sets. The productions outlive it.
class Spelling {
 public:
  Spelling(Productions& productions, SpelledAs as) : productions_(&productions), as_(as) {}

  Productions& productions() { return *productions_; }
  ExpressionId characters(const CodePointSet& set);
  ExpressionId pattern(const Regex& pattern);

 private:
  Productions* productions_;
  SpelledAs as_;
  std::map<std::vector<CodePointRange>, ExpressionId> known_;
};

// The text of a JSON string, without its quotes.
std::string json_escaped(std::string_view text);

}  // namespace braid
