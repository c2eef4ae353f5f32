// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_items.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/call.h"

namespace braid::server {
namespace {

std::string required(Fields& fields, std::string_view name) {
  auto text = fields.text(name);
  if (!text) fields.refuse(name, "is missing");
  return *std::move(text);
}

// A string, or a list of parts of text, as one string.
std::string text_of(Fields& fields, std::string_view name) {
  const Json* content = fields.any(name);
  if (content == nullptr) fields.refuse(name, "is missing");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    fields.refuse(name, fmt::format("expected a string or a list of parts, found {}", type_name(*content)));
  std::string out;
  for (size_t i = 0; i < content->size(); ++i) {
    Fields part((*content)[i], fmt::format("{}[{}]", fields.place_of(name), i));
    const std::string type = required(part, "type");
    const bool refusal = type == "refusal";
    if (!refusal && type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text" &&
        type != "summary_text")
      part.refuse("type", fmt::format("'{}' parts are not supported: this server reads text alone", type));
    if (i > 0) out += '\n';
    out += required(part, refusal ? "refusal" : "text");
  }
  return out;
}

class Reader {
 public:
  explicit Reader(ResponseInput& out) : out_(out) {}

  void read(const Json& item, const std::string& place) {
    Fields fields(item, place);
    const std::string type = fields.text("type").value_or("message");
    Json listed = item;
    listed["type"] = type;
    if (!listed.contains("id")) listed["id"] = fresh_id(type == "message" ? "msg_" : "item_");
    if (type == "message") {
      read_message(fields, listed);
    } else if (type == "function_call") {
      read_call(fields);
    } else if (type == "function_call_output") {
      add({{"role", "tool"}, {"tool_call_id", required(fields, "call_id")}, {"content", text_of(fields, "output")}});
    } else if (type == "reasoning") {
      const bool content = fields.list("content") != nullptr && !fields.list("content")->empty();
      if (content || fields.list("summary") != nullptr) reasoning_ += text_of(fields, content ? "content" : "summary");
    } else {
      fields.refuse("type", fmt::format("'{}' items are not supported", type));
    }
    out_.items.push_back(std::move(listed));
  }

 private:
  void add(Json message) { out_.messages.push_back(std::move(message)); }

  void read_message(Fields& fields, Json& listed) {
    const std::string role = required(fields, "role");
    if (role != "user" && role != "assistant" && role != "system" && role != "developer")
      fields.refuse("role", fmt::format("'{}' is none of user, assistant, system and developer", role));
    std::string text = text_of(fields, "content");
    if (listed.at("content").is_string())
      listed["content"] = Json::array({{{"type", role == "assistant" ? "output_text" : "input_text"}, {"text", text}}});
    Json message = {{"role", role == "developer" ? "system" : role}, {"content", std::move(text)}};
    if (role == "assistant") take_reasoning(message);
    add(std::move(message));
  }

  void read_call(Fields& fields) {
    if (out_.messages.empty() || out_.messages.back().at("role") != "assistant") {
      add({{"role", "assistant"}, {"content", nullptr}});
      take_reasoning(out_.messages.back());
    }
    out_.messages.back()["tool_calls"].push_back(
        {{"id", required(fields, "call_id")},
         {"type", "function"},
         {"function", {{"name", required(fields, "name")}, {"arguments", required(fields, "arguments")}}}});
  }

  void take_reasoning(Json& message) {
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  }

  ResponseInput& out_;
  std::string reasoning_;  // of the message that follows
};

}  // namespace

ResponseInput read_response_input(Fields& fields) {
  const Json* input = fields.any("input");
  if (input == nullptr) fields.refuse("input", "is missing");
  ResponseInput out;
  Reader reader(out);
  if (input->is_string()) {
    reader.read({{"type", "message"}, {"role", "user"}, {"content", *input}}, "input");
  } else if (input->is_array()) {
    for (size_t i = 0; i < input->size(); ++i) reader.read((*input)[i], fmt::format("input[{}]", i));
  } else {
    fields.refuse("input", fmt::format("expected a string or a list of items, found {}", type_name(*input)));
  }
  return out;
}

Json tools_of_functions(const Json& tools) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], fmt::format("tools[{}]", i));
    const std::string type = required(tool, "type");
    if (type != "function") tool.refuse("type", fmt::format("'{}' tools are not supported, only functions", type));
    Json function = {{"name", required(tool, "name")}};
    if (const auto description = tool.text("description")) function["description"] = *description;
    if (const Json* parameters = tool.object("parameters")) function["parameters"] = *parameters;
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out.empty() ? Json() : out;
}

}  // namespace braid::server
