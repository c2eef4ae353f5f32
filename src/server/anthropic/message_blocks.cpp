// SPDX-License-Identifier: Apache-2.0
#include "server/anthropic/message_blocks.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "server/api_error.h"

namespace braid::server {
namespace {

std::string block_place(const std::string& place, size_t index) { return fmt::format("{}[{}]", place, index); }

std::string required(Fields& fields, std::string_view name) {
  auto text = fields.text(name);
  if (!text) fields.refuse(name, "is missing");
  return *std::move(text);
}

Json text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

// A string, or a list of text blocks, as a list of text parts.
Json text_parts(Fields& fields, std::string_view name) {
  Json out = Json::array();
  const Json* content = fields.any(name);
  if (content == nullptr) return out;
  if (content->is_string()) {
    if (!content->get_ref<const std::string&>().empty()) out.push_back(text_part(content->get<std::string>()));
    return out;
  }
  if (!content->is_array())
    fields.refuse(name, fmt::format("expected a string or a list of blocks, found {}", type_name(*content)));
  for (size_t i = 0; i < content->size(); ++i) {
    Fields block((*content)[i], block_place(fields.place_of(name), i));
    const std::string type = required(block, "type");
    if (type != "text")
      block.refuse("type", fmt::format("'{}' blocks are not supported here: this server reads text alone", type));
    out.push_back(text_part(required(block, "text")));
  }
  return out;
}

std::string joined(const Json& parts) {
  std::string out;
  for (const Json& part : parts) {
    if (!out.empty()) out += '\n';
    out += part.at("text").get_ref<const std::string&>();
  }
  return out;
}

// Collects what one message of the API says into messages of the template's form.
class Reader {
 public:
  explicit Reader(Json& out) : out_(out) {}

  void read(Fields& message) {
    const std::string role = required(message, "role");
    if (role != "user" && role != "assistant" && role != "system")
      message.refuse("role", fmt::format("'{}' is neither user nor assistant", role));
    const Json* content = message.any("content");
    if (content == nullptr) message.refuse("content", "is missing");
    if (!content->is_array()) {
      for (Json& part : text_parts(message, "content")) add_text(role, std::move(part));
      message_of(role);
      return;
    }
    const std::string place = message.place_of("content");
    for (size_t i = 0; i < content->size(); ++i) {
      Fields block((*content)[i], block_place(place, i));
      read_block(role, block);
      block.any("cache_control");
      block.log_unknown();
    }
    if (content->empty()) message_of(role);
  }

 private:
  // The message that goes on, or a new one.
  Json& message_of(const std::string& role) {
    if (out_.empty() || out_.back().at("role") != role) out_.push_back({{"role", role}, {"content", Json::array()}});
    return out_.back();
  }

  void add_text(const std::string& role, Json part) { message_of(role)["content"].push_back(std::move(part)); }

  void read_block(const std::string& role, Fields& block) {
    const std::string type = required(block, "type");
    if (type == "text") {
      block.any("citations");
      add_text(role, text_part(required(block, "text")));
    } else if (type == "tool_result" && role == "user") {
      read_result(block);
    } else if (type == "tool_use" && role == "assistant") {
      read_call(block);
    } else if (type == "thinking" && role == "assistant") {
      block.any("signature");
      Json& message = message_of(role);
      message["reasoning_content"] = message.value("reasoning_content", "") + required(block, "thinking");
    } else if (type == "redacted_thinking" && role == "assistant") {
      block.any("data");
      message_of(role);
    } else {
      block.refuse("type", fmt::format("'{}' blocks of the role {} are not supported", type, role));
    }
  }

  void read_call(Fields& block) {
    block.any("caller");
    const Json* input = block.object("input");
    message_of("assistant")["tool_calls"].push_back(
        {{"id", required(block, "id")},
         {"type", "function"},
         {"function", {{"name", required(block, "name")}, {"arguments", input ? *input : Json::object()}}}});
  }

  void read_result(Fields& block) {
    std::string text = joined(text_parts(block, "content"));
    // Templates have no word for a failure, so that the text has to say it.
    if (block.flag("is_error").value_or(false)) text = text.empty() ? "Error" : "Error: " + text;
    out_.push_back({{"role", "tool"}, {"tool_call_id", required(block, "tool_use_id")}, {"content", std::move(text)}});
  }

  Json& out_;
};

}  // namespace

Json messages_of_blocks(const Json& messages) {
  if (messages.empty()) throw ApiError(Fault::Invalid, "messages: expected at least one message", "messages");
  Json out = Json::array();
  Reader reader(out);
  for (size_t i = 0; i < messages.size(); ++i) {
    Fields fields(messages[i], block_place("messages", i));
    reader.read(fields);
    fields.log_unknown();
  }
  for (Json& message : out)
    if (message.at("content").is_array()) message["content"] = joined(message.at("content"));
  return out;
}

Json system_message(Fields& fields) {
  const Json parts = text_parts(fields, "system");
  if (parts.empty()) return {};
  return {{"role", "system"}, {"content", joined(parts)}};
}

Json tools_of_schemas(const Json& tools) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    Fields tool(tools[i], block_place("tools", i));
    const std::string type = tool.text("type").value_or("custom");
    if (type != "custom")
      tool.refuse("type", fmt::format("'{}' is a tool that the server would run; only custom tools are known", type));
    Json function = {{"name", required(tool, "name")}};
    if (const auto description = tool.text("description")) function["description"] = *description;
    const Json* schema = tool.object("input_schema");
    if (schema == nullptr) tool.refuse("input_schema", "is missing");
    function["parameters"] = *schema;
    tool.any("cache_control");
    tool.log_unknown();
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out.empty() ? Json() : out;
}

}  // namespace braid::server
