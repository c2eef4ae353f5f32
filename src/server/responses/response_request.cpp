// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "server/api_error.h"

namespace braid::server {
namespace {

using Kind = ToolChoice::Kind;

void read_tool_choice(Fields& fields, ChatRequest& chat) {
  const Json* choice = fields.any("tool_choice");
  const bool tools = !chat.input.tools.is_null();
  if (choice == nullptr || *choice == "auto") return;
  if (choice->is_string()) {
    if (*choice == "none") {
      chat.tool_choice.kind = Kind::None;
      chat.input.tools = Json();
      return;
    }
    if (*choice != "required") fields.refuse("tool_choice", "expected auto, none, required or a function");
    if (!tools) fields.refuse("tool_choice", "'required', and there are no tools");
    chat.tool_choice.kind = Kind::Required;
    return;
  }
  Fields inner(*choice, "tool_choice");
  const std::string type = inner.text("type").value_or("");
  if (type != "function") inner.refuse("type", fmt::format("'{}' is not supported, only function", type));
  const auto name = inner.text("name");
  if (!name) inner.refuse("name", "is missing");
  const bool known = tools && std::ranges::any_of(chat.input.tools, [&](const Json& tool) {
                       return tool.at("function").at("name") == *name;
                     });
  if (!known) inner.refuse("name", fmt::format("there is no tool '{}'", *name));
  chat.tool_choice = {Kind::Named, *name};
}

// text.format
void read_format(Fields& fields, AnswerFormat& out) {
  const Json* text = fields.object("text");
  if (text == nullptr) return;
  Fields holder(*text, "text");
  const Json* format = holder.object("format");
  if (format == nullptr) return;
  Fields inner(*format, "text.format");
  const std::string type = inner.text("type").value_or("");
  if (type == "text") return;
  if (type == "json_object") {
    out = {AnswerFormat::Kind::Json, {}, "text.format"};
    return;
  }
  if (type != "json_schema")
    inner.refuse("type", fmt::format("'{}' is none of text, json_object and json_schema", type));
  const Json* schema = inner.object("schema");
  if (schema == nullptr) inner.refuse("schema", "is missing");
  out = {AnswerFormat::Kind::Schema, *schema, "text.format.schema"};
}

void read_reasoning(const Service& service, Fields& fields, ResponseRequest& out) {
  Json& variables = out.chat.input.variables;
  if (service.options.think) variables["enable_thinking"] = *service.options.think;
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return;
  Fields inner(*reasoning, "reasoning");
  if (const auto effort = inner.text("effort")) {
    variables["reasoning_effort"] = *effort;
    variables["enable_thinking"] = *effort != "none";
  }
  out.summary = inner.text("summary").has_value();
}

void refuse_what_is_missing(Fields& fields) {
  if (fields.flag("background").value_or(false)) fields.refuse("background", "is not supported");
  for (const char* name : {"conversation", "prompt"})
    if (fields.any(name) != nullptr) fields.refuse(name, "is not supported");
}

void read_answer(const Service& service, Fields& fields, ResponseRequest& out) {
  AnswerOptions& answer = out.chat.answer;
  answer.sampling = service.sampling();
  if (const auto value = fields.number("temperature", 0, 100)) answer.sampling.temperature = static_cast<float>(*value);
  if (const auto value = fields.number("top_p", 0, 1)) answer.sampling.top_p = static_cast<float>(*value);
  answer.max_tokens = fields.integer("max_output_tokens", 1);
  if (!answer.max_tokens) answer.max_tokens = service.options.max_tokens;
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  const std::vector<std::string> include = fields.texts("include");
  if (top.value_or(0) > 0 || std::ranges::find(include, "message.output_text.logprobs") != include.end())
    answer.logprobs = static_cast<int32_t>(top.value_or(0));
  read_format(fields, answer.format);
}

// 0.7f as 0.7
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// The order of fields is that of the API's own examples.
Json echo_of(const Json& body, const ResponseRequest& asked) {
  const auto given = [&](const char* name, Json otherwise) {
    const auto found = body.find(name);
    return found == body.end() || found->is_null() ? std::move(otherwise) : *found;
  };
  Json out = {{"background", false}, {"error", nullptr}, {"incomplete_details", nullptr}};
  out["instructions"] = given("instructions", nullptr);
  out["max_output_tokens"] = given("max_output_tokens", nullptr);
  out["max_tool_calls"] = nullptr;
  out["model"] = body.at("model");
  out["output"] = Json::array();
  out["parallel_tool_calls"] = asked.chat.parallel_calls;
  out["previous_response_id"] = given("previous_response_id", nullptr);
  const Json reasoning = given("reasoning", Json::object());
  out["reasoning"] = {{"effort", reasoning.value("effort", Json())}, {"summary", reasoning.value("summary", Json())}};
  out["service_tier"] = "default";
  out["store"] = asked.store;
  out["temperature"] = given("temperature", shortest(asked.chat.answer.sampling.temperature));
  const Json text = given("text", Json::object());
  out["text"] = {{"format", text.value("format", Json{{"type", "text"}})}};
  out["tool_choice"] = given("tool_choice", "auto");
  out["tools"] = given("tools", Json::array());
  out["top_logprobs"] = given("top_logprobs", 0);
  out["top_p"] = given("top_p", shortest(asked.chat.answer.sampling.top_p));
  out["truncation"] = "disabled";
  out["usage"] = nullptr;
  out["user"] = given("user", nullptr);
  out["metadata"] = given("metadata", Json::object());
  return out;
}

}  // namespace

ResponseRequest read_response_request(const Service& service, ResponseStore& store, const Json& body) {
  Fields fields(body);
  ResponseRequest out;
  service.read_model(fields);
  refuse_what_is_missing(fields);
  ChatInput& chat = out.chat.input;
  if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty())
    chat.messages.push_back({{"role", "system"}, {"content", *instructions}});
  if (const auto previous = fields.text("previous_response_id")) {
    out.parent = store.turn(*previous);
    if (!out.parent)
      throw ApiError(Fault::Invalid, fmt::format("previous_response_id: there is no response '{}' here", *previous),
                     "previous_response_id", "previous_response_not_found");
    for (Json& message : out.parent->conversation()) chat.messages.push_back(std::move(message));
  }
  out.input = read_response_input(fields);
  for (const Json& message : out.input.messages) chat.messages.push_back(message);
  if (chat.messages.empty()) fields.refuse("input", "expected at least one item");
  if (const Json* tools = fields.list("tools")) chat.tools = tools_of_functions(*tools);
  read_tool_choice(fields, out.chat);
  out.chat.parallel_calls = fields.flag("parallel_tool_calls").value_or(true);
  read_reasoning(service, fields, out);
  read_answer(service, fields, out);
  out.stream = fields.flag("stream").value_or(false);
  out.store = fields.flag("store").value_or(true);
  fields.object("metadata");
  for (const char* name : {"truncation", "user", "service_tier", "prompt_cache_key"}) fields.text(name);
  out.echo = echo_of(body, out);
  fields.log_unknown();
  return out;
}

}  // namespace braid::server
