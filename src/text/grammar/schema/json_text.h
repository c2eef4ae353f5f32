// JsonText: the rules of JSON itself: white space, strings, numbers and values of any kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "text/grammar/number_range.h"
#include "text/grammar/spelling.h"

namespace braid {

// White space is where models lose themselves, so there is little of it. Compact: none at all. Bounded: behind ':' at
// most one space; behind ',' and inside of brackets nothing, a space, or a line break with up to 32 spaces or 8 tabs.
enum class WhiteSpace : uint8_t { Compact, Bounded };

// Rules are made when they are first asked for. The productions outlive it.
class JsonText {
 public:
  JsonText(Productions& productions, WhiteSpace space);

  Productions& productions() { return productions_; }
  Spelling& spelling() { return spelling_; }  // of characters within strings

  ExpressionId break_space();  // behind ',' and inside of brackets
  ExpressionId colon();
  ExpressionId comma();
  // What stands between quotes becomes a string.
  ExpressionId quoted(ExpressionId content);
  // Any string of so many characters, however they are escaped; lone surrogates are not allowed.
  ExpressionId string(uint32_t least = 0, uint32_t most = kUnbounded);
  // Any number but those too large for a double.
  ExpressionId number();
  ExpressionId integer();
  ExpressionId any();
  ExpressionId any_object();
  ExpressionId any_array();
  // A value as it stands, in one spelling but for white space.
  ExpressionId constant(const Json& value);
  // open, parts with commas between them, close; `parts` may be empty.
  ExpressionId bracketed(char open, ExpressionId content, bool may_be_empty);
  ExpressionId list(ExpressionId item, uint32_t least, uint32_t most);

 private:
  ExpressionId character();

  Productions& productions_;
  Spelling spelling_;
  WhiteSpace space_;
  std::optional<RuleId> break_space_, string_, number_, integer_, any_, object_, array_;
  std::optional<ExpressionId> character_;
};

}  // namespace braid
