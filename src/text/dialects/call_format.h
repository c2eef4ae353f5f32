// The format of tool calls, for answers that have to call, or whose calls have to be right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"
#include "text/dialects/dialect.h"

namespace braid {

struct CallRule {
  std::string name;      // the function that has to be called; empty: any
  bool required = true;  // the answer is calls alone; otherwise text with calls in it
  bool parallel = true;  // more than one
};

// What the answer must be after its thoughts, as a structure of the kind Format (text/grammar/structure_format.h).
// `tools` as in a request: {"type": "function", "function": {"name", "parameters"}}. Arguments follow the schema of
// their function. An Input error where the form is None, or no tool has the name.
Json call_format(ToolForm form, const Json& tools, const CallRule& rule);

}  // namespace braid
