// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/dialect.h"

#include "base/error.h"

namespace braid {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

bool is_mark(const Dialect& dialect, std::string_view text) {
  return (dialect.reasoning && (text == dialect.reasoning->open || text == dialect.reasoning->close)) ||
         (dialect.tools != ToolForm::None && (text == "<tool_call>" || text == "</tool_call>"));
}

Dialect dialect_of_template(std::string_view source) {
  Dialect out;
  const ReasoningMarks marks;
  if (has(source, marks.open) || has(source, marks.close)) out.reasoning = marks;
  if (has(source, "<tool_call>")) out.tools = has(source, "<function=") ? ToolForm::Xml : ToolForm::Json;
  return out;
}

Dialect with_options(Dialect dialect, std::string_view reasoning, std::string_view tools) {
  if (reasoning == "none") {
    dialect.reasoning.reset();
  } else if (reasoning == "think") {
    dialect.reasoning = ReasoningMarks{};
  } else if (reasoning != "auto") {
    fail(ErrorKind::Usage, "reasoning '{}': expected auto, none or think", reasoning);
  }
  if (tools == "none") {
    dialect.tools = ToolForm::None;
  } else if (tools == "json") {
    dialect.tools = ToolForm::Json;
  } else if (tools == "xml") {
    dialect.tools = ToolForm::Xml;
  } else if (tools != "auto") {
    fail(ErrorKind::Usage, "tool dialect '{}': expected auto, none, json or xml", tools);
  }
  return dialect;
}

ReasoningStart reasoning_start(std::string_view prompt, const Dialect& dialect, std::string_view continued) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto trimmed = [&](std::string_view text) { return text.substr(0, text.find_last_not_of(kSpace) + 1); };
  ReasoningStart start = ReasoningStart::Unopened;
  if (dialect.reasoning) {
    const auto& [open, close] = *dialect.reasoning;
    if (trimmed(prompt).ends_with(open)) start = ReasoningStart::Open;
    if (trimmed(prompt).ends_with(close)) start = ReasoningStart::Closed;
    const size_t last_open = continued.rfind(open), last_close = continued.rfind(close);
    if (last_close != std::string_view::npos && (last_open == std::string_view::npos || last_open < last_close)) {
      start = ReasoningStart::Closed;
      continued.remove_prefix(last_close + close.size());
    } else if (last_open != std::string_view::npos) {
      start = ReasoningStart::Open;
    }
  }
  const bool answered = start != ReasoningStart::Open && !trimmed(continued).empty();
  return answered ? ReasoningStart::Answering : start;
}

}  // namespace braid
