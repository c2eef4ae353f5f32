// SPDX-License-Identifier: Apache-2.0
#include "text/template/conversation.h"

#include <fmt/format.h>

#include "base/json_place.h"

namespace braid {
namespace {

void check_named_function(const JsonPlace& holder) {
  if (!holder.is_object()) holder.refuse("expected an object");
  const bool wrapped = holder.has("function");
  (wrapped ? holder.at("function") : holder).at("name").text();
}

void check_content(const JsonPlace& content) {
  if (content.is_string()) return;
  if (!content.is_array()) content.refuse("expected a string, a list of parts, or null");
  for (const JsonPlace& part : content.elements()) {
    if (part.is_string()) continue;
    if (!part.is_object()) part.refuse("expected a string or an object with a type");
    if (part.at("type").text() == "text") part.at("text").text();
  }
}

void check_message(const JsonPlace& message) {
  if (!message.is_object()) message.refuse("expected an object");
  message.at("role").text();
  if (message.has("content")) check_content(message.at("content"));
  for (const char* key : {"reasoning_content", "name", "tool_call_id"}) message.text_or(key, "");
  if (message.has("tool_calls"))
    for (const JsonPlace& call : message.at("tool_calls").elements()) check_named_function(call);
}

}  // namespace

void check_conversation(const Json& messages, const Json& tools) {
  const JsonPlace list(messages, "messages"), tool_list(tools, "tools");
  const std::vector<JsonPlace> all = list.elements();
  if (all.empty()) list.refuse("expected at least one message");
  for (const JsonPlace& message : all) check_message(message);
  if (tool_list.is_null()) return;
  for (const JsonPlace& tool : tool_list.elements()) {
    if (!tool.is_object()) tool.refuse("expected an object");
    if (tool.has("function")) check_named_function(tool);
  }
}

void check_text_alone(const Json& messages) {
  for (const JsonPlace& message : JsonPlace(messages, "messages").elements()) {
    if (!message.has("content") || !message.at("content").is_array()) continue;
    for (const JsonPlace& part : message.at("content").elements())
      if (part.is_object() && part.at("type").text() != "text")
        part.at("type").refuse(fmt::format("'{}' parts are not supported, only text", part.at("type").text()));
  }
}

}  // namespace braid
