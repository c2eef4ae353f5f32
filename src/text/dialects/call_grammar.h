// The grammar of tool calls: for answers that have to call, or may call once at most.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "text/dialects/dialect.h"
#include "text/grammar/token_trie.h"

namespace braid {

struct CallRule {
  ToolForm form = ToolForm::Json;
  Json tools;                       // {"type": "function", "function": {"name", "parameters"}}, or the inner objects
  std::string name;                 // the function that has to be called; empty: any
  bool required = true;             // the answer is calls alone; otherwise text, and then perhaps a call
  bool parallel = true;             // more than one
  const TokenTrie* trie = nullptr;  // whose special tokens marks may be; null: marks are text
};

// An expression for the JSON text of a value that a schema describes. Faults are Input errors.
using SchemaReader = std::function<ExpressionId(const Json& schema, Productions& productions)>;

// What the answer must be, after its thoughts. Arguments follow the schema of their function: JSON in the Json form; in
// the Xml form a parameter each, in the order of the schema, strings as plain text and the rest as JSON. An Input error
// where the form is None, or no tool has the name.
ExpressionId call_expression(const CallRule& rule, const SchemaReader& schema, Productions& productions);

// Any text that `mark` (ASCII) does not occur in.
ExpressionId text_without(std::string_view mark, Productions& productions);

}  // namespace braid
