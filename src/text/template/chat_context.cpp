// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_context.h"

#include "base/error.h"
#include "text/template/conversation.h"

namespace braid {
namespace {

void parse_arguments(Json& holder) {
  const auto found = holder.find("arguments");
  if (found == holder.end() || !found->is_string()) return;
  const auto& text = found->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    *found = Json::object();
    return;
  }
  try {
    Json parsed = parse_json(text, "arguments");
    if (parsed.is_object()) *found = std::move(parsed);
  } catch (const Error&) {
    // Not JSON: the template gets what the model once wrote.
  }
}

void parse_tool_calls(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    const auto function = call.find("function");
    parse_arguments(function != call.end() && function->is_object() ? *function : call);
  }
}

void fill_content(Json& message) {
  const auto content = message.find("content");
  if (content != message.end() && !content->is_null()) return;
  const auto calls = message.find("tool_calls");
  const bool has_calls = calls != message.end() && calls->is_array() && !calls->empty();
  message["content"] = has_calls ? Json() : Json("");
}

void join_parts(Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array()) return;
  std::string text;
  bool first = true;
  for (const Json& part : *content) {
    if (!part.is_string() && !part.is_object()) return;
    const Json piece = part.is_string() ? part : part.value("text", Json());
    const bool is_text = part.is_string() || part.value("type", Json("text")) == "text";
    if (!is_text || !piece.is_string()) return;
    if (!first) text += '\n';
    first = false;
    text += piece.get_ref<const std::string&>();
  }
  *content = std::move(text);
}

void check_type(const char* name, bool valid, const char* expected) {
  if (!valid) fail("{}: expected {}", name, expected);
}

}  // namespace

Json make_chat_context(const ChatInput& input, const ChatContextOptions& options) {
  check_type("messages", input.messages.is_array(), "a list");
  check_type("tools", input.tools.is_array() || input.tools.is_null(), "a list");
  check_type("documents", input.documents.is_array() || input.documents.is_null(), "a list");
  check_type("special tokens", input.special_tokens.is_object(), "an object");
  check_type("chat template variables", input.variables.is_object(), "an object");
  Json context = Json::object();
  Json& messages = context["messages"] = input.messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.is_object()) fail("messages[{}]: expected an object", i);
    if (options.parse_tool_arguments) parse_tool_calls(message);
    if (options.fill_missing_content) fill_content(message);
    if (options.join_text_parts) join_parts(message);
  }
  context["tools"] = input.tools;
  context["documents"] = input.documents;
  context["add_generation_prompt"] = input.add_generation_prompt;
  for (const auto& [name, value] : input.special_tokens.items()) context[name] = value;
  for (const auto& [name, value] : input.variables.items()) context[name] = value;
  return context;
}

std::string render_chat(const ChatTemplate& chat_template, const ChatInput& input) {
  check_conversation(input.messages, input.tools);
  return chat_template.render(make_chat_context(input, ChatContextOptions::suited_to(chat_template)));
}

}  // namespace braid
