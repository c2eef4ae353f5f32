// SPDX-License-Identifier: Apache-2.0
#include "server/anthropic/messages_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/anthropic/message_blocks.h"

namespace braid::server {
namespace {

using Kind = ToolChoice::Kind;

void read_tool_choice(Fields& fields, ChatRequest& chat) {
  const Json* choice = fields.object("tool_choice");
  if (choice == nullptr) return;
  Fields inner(*choice, "tool_choice");
  const std::string type = inner.text("type").value_or("");
  chat.parallel_calls = !inner.flag("disable_parallel_tool_use").value_or(false);
  const bool tools = !chat.input.tools.is_null();
  if (type == "none") {
    chat.tool_choice.kind = Kind::None;
    chat.input.tools = Json();
  } else if (type == "any") {
    if (!tools) inner.refuse("type", "'any', and there are no tools");
    chat.tool_choice.kind = Kind::Required;
  } else if (type == "tool") {
    const auto name = inner.text("name");
    if (!name) inner.refuse("name", "is missing");
    const bool known = tools && std::ranges::any_of(chat.input.tools, [&](const Json& tool) {
                         return tool.at("function").at("name") == *name;
                       });
    if (!known) inner.refuse("name", fmt::format("there is no tool '{}'", *name));
    chat.tool_choice = {Kind::Named, *name};
  } else if (type != "auto") {
    inner.refuse("type", fmt::format("'{}' is none of auto, any, tool and none", type));
  }
}

void read_thinking(const Service& service, Fields& fields, ChatRequest& chat) {
  bool think = service.options.think.value_or(false);
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking");
    const std::string type = inner.text("type").value_or("");
    if (type != "enabled" && type != "disabled" && type != "adaptive" && type != "between_tools")
      inner.refuse("type", fmt::format("'{}' is none of enabled, adaptive, between_tools and disabled", type));
    think = type != "disabled";
    const auto budget = inner.integer("budget_tokens", 1);
    if (think && budget) chat.thinking_budget = *budget;
  }
  chat.input.variables["enable_thinking"] = think;
}

AnswerFormat read_schema(const Json& format, const std::string& place) {
  Fields inner(format, place);
  const std::string type = inner.text("type").value_or("");
  if (type != "json_schema") inner.refuse("type", fmt::format("'{}' is not json_schema", type));
  const Json* schema = inner.object("schema");
  if (schema == nullptr) inner.refuse("schema", "is missing");
  return {AnswerFormat::Kind::Schema, *schema, inner.place_of("schema")};
}

void read_output(Fields& fields, ChatRequest& chat) {
  if (const Json* format = fields.object("output_format")) chat.answer.format = read_schema(*format, "output_format");
  const Json* output = fields.object("output_config");
  if (output == nullptr) return;
  Fields inner(*output, "output_config");
  if (const auto effort = inner.text("effort")) chat.input.variables["reasoning_effort"] = *effort;
  if (const Json* format = inner.object("format")) chat.answer.format = read_schema(*format, "output_config.format");
}

void read_answer(const Service& service, Fields& fields, AnswerOptions& answer, bool counted) {
  answer.sampling = service.sampling();
  if (const auto value = fields.number("temperature", 0, 100)) answer.sampling.temperature = static_cast<float>(*value);
  if (const auto value = fields.number("top_p", 0, 1)) answer.sampling.top_p = static_cast<float>(*value);
  if (const auto value = fields.integer("top_k", 0, INT32_MAX)) answer.sampling.top_k = static_cast<int32_t>(*value);
  answer.max_tokens = fields.integer("max_tokens", 1);
  if (!answer.max_tokens && !counted) fields.refuse("max_tokens", "is missing");
  answer.stop = fields.texts("stop_sequences");
}

bool is_blank(const Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() &&
         content->get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

MessagesRequest read_messages_request(const Service& service, const Json& body, bool counted) {
  Fields fields(body);
  MessagesRequest out;
  out.model = service.read_model(fields);
  const Json& messages = fields.required_list("messages");
  ChatRequest& chat = out.chat;
  if (Json system = system_message(fields); !system.is_null()) chat.input.messages.push_back(std::move(system));
  for (Json& message : messages_of_blocks(messages)) chat.input.messages.push_back(std::move(message));
  const Json& last = chat.input.messages.back();
  chat.continue_final = last.at("role") == "assistant" && !last.contains("tool_calls");
  // The last message of an assistant may be empty, which is the beginning that an answer has anyhow.
  if (chat.continue_final && messages.size() > 1 && is_blank(last)) {
    chat.input.messages.erase(chat.input.messages.size() - 1);
    chat.continue_final = false;
  }
  chat.input.add_generation_prompt = !chat.continue_final;
  if (const Json* tools = fields.list("tools")) chat.input.tools = tools_of_schemas(*tools);
  read_tool_choice(fields, chat);
  read_thinking(service, fields, chat);
  read_output(fields, chat);
  read_answer(service, fields, chat.answer, counted);
  out.stream = fields.flag("stream").value_or(false);
  fields.object("metadata");
  fields.log_unknown();
  return out;
}

}  // namespace braid::server
