// SPDX-License-Identifier: Apache-2.0
#include "server/chat/messages.h"

#include <fmt/format.h>

#include "server/api_error.h"
#include "server/fields.h"

namespace braid::server {
namespace {

// A string, or a list of text parts in one spelling; null where there is none.
Json content_of(Fields& fields) {
  const Json* content = fields.any("content");
  if (content == nullptr) return {};
  if (content->is_string()) return *content;
  if (!content->is_array())
    fields.refuse("content", fmt::format("expected a string or a list of parts, found {}", type_name(*content)));
  Json parts = Json::array();
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string place = fmt::format("{}[{}]", fields.place_of("content"), i);
    Fields part((*content)[i], place);
    const std::string type = part.text("type").value_or("text");
    const bool refusal = type == "refusal";
    if (type != "text" && !refusal && type != "input_text" && type != "output_text")
      part.refuse("type", fmt::format("'{}' parts are not supported: this server reads text alone", type));
    const auto text = part.text(refusal ? "refusal" : "text");
    if (!text) part.refuse(refusal ? "refusal" : "text", "is missing");
    parts.push_back({{"type", "text"}, {"text", *text}});
  }
  return parts;
}

Json calls_of(const Json& calls, const std::string& place) {
  Json out = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields call(calls[i], fmt::format("{}[{}]", place, i));
    const Json* inner = call.object("function");
    if (inner == nullptr) call.refuse("function", "is missing");
    Fields function(*inner, call.place_of("function"));
    const auto name = function.text("name");
    if (!name) function.refuse("name", "is missing");
    const Json* arguments = function.any("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
      function.refuse("arguments", "expected a string that holds a JSON object");
    out.push_back({{"id", call.text("id").value_or("")},
                   {"type", "function"},
                   {"function", {{"name", *name}, {"arguments", arguments != nullptr ? *arguments : Json("")}}}});
  }
  return out;
}

Json message_of(Fields& fields) {
  const auto role = fields.text("role");
  if (!role) fields.refuse("role", "is missing");
  Json out = {{"role", *role == "developer" ? "system" : *role}, {"content", content_of(fields)}};
  if (*role == "assistant") {
    auto reasoning = fields.text("reasoning_content");
    if (!reasoning) reasoning = fields.text("reasoning");
    if (reasoning) out["reasoning_content"] = *reasoning;
    const Json* calls = fields.list("tool_calls");
    if (calls != nullptr && !calls->empty()) out["tool_calls"] = calls_of(*calls, fields.place_of("tool_calls"));
  } else if (*role == "tool") {
    if (const auto id = fields.text("tool_call_id")) out["tool_call_id"] = *id;
    if (out["content"].is_null()) fields.refuse("content", "is missing");
  } else if (*role != "system" && *role != "developer" && *role != "user") {
    fields.refuse("role", fmt::format("'{}' is none of system, developer, user, assistant and tool", *role));
  } else if (out["content"].is_null()) {
    fields.refuse("content", "is missing");
  }
  if (const auto name = fields.text("name")) out["name"] = *name;
  fields.log_unknown();
  return out;
}

}  // namespace

Json normal_messages(const Json& messages) {
  if (messages.empty()) throw ApiError(Fault::Invalid, "messages: expected at least one message", "messages");
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Fields fields(messages[i], fmt::format("messages[{}]", i));
    out.push_back(message_of(fields));
  }
  return out;
}

Json normal_tools(const Json& tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], fmt::format("tools[{}]", i));
    const std::string type = tool.text("type").value_or("function");
    if (type != "function") tool.refuse("type", fmt::format("'{}' tools are not supported, only functions", type));
    const Json* inner = tool.object("function");
    if (inner == nullptr) tool.refuse("function", "is missing");
    Fields function(*inner, tool.place_of("function"));
    const auto name = function.text("name");
    if (!name || name->empty()) function.refuse("name", "is missing");
    function.text("description");
    function.object("parameters");
  }
  return tools.empty() ? Json() : tools;
}

}  // namespace braid::server
