// Dialect: how a model marks its thoughts and its tool calls, named by syntax; and what a rendered prompt says of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace braid {

struct ReasoningMarks {
  std::string open = "<think>", close = "</think>";
};

// Json: <tool_call>{"name": "f", "arguments": {...}}</tool_call>
// Xml:  <tool_call><function=f><parameter=key>\nvalue\n</parameter></function></tool_call>
enum class ToolForm { None, Json, Xml };

struct Dialect {
  std::optional<ReasoningMarks> reasoning;
  ToolForm tools = ToolForm::None;
};

// Whether this is one of the dialect's marks.
bool is_mark(const Dialect& dialect, std::string_view text);

// What the text of a chat template shows: it names the marks that its model was trained on.
Dialect dialect_of_template(std::string_view source);

// `dialect` with what options say on top: reasoning "auto", "none" or "think"; tools "auto", "none", "json" or "xml".
// Another word is a Usage error.
Dialect with_options(Dialect dialect, std::string_view reasoning, std::string_view tools);

// Where an answer starts. Unopened: thoughts may come; Open: among thoughts; Closed: just after thoughts, be they
// empty; Answering: text of the answer is there already.
enum class ReasoningStart { Unopened, Open, Closed, Answering };

// `prompt` as the template leaves it: only its end counts, whatever marks the conversation holds. `continued` is text
// of the answer that follows it in the prompt (a last message that is continued, or a prompt without a template).
ReasoningStart reasoning_start(std::string_view prompt, const Dialect& dialect, std::string_view continued = {});

}  // namespace braid
