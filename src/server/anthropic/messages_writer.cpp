// SPDX-License-Identifier: Apache-2.0
#include "server/anthropic/messages_writer.h"

#include <utility>
#include <variant>

#include "server/anthropic/error.h"
#include "server/openai/error.h"
#include "text/dialects/json_scanner.h"

namespace braid::server {
namespace {

Json usage_json(const TokenUsage& usage) {
  return {{"input_tokens", usage.prompt - usage.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning}}}};
}

// stop_reason and stop_sequence
Json ending(const ChoiceEnd& end, bool called) {
  const char* reason = end.end == AnswerEnd::Length                ? "max_tokens"
                       : called || end.end == AnswerEnd::ToolCalls ? "tool_use"
                       : end.stop.empty()                          ? "end_turn"
                                                                   : "stop_sequence";
  const bool matched = std::string_view(reason) == "stop_sequence";
  return {{"stop_reason", reason}, {"stop_sequence", matched ? Json(end.stop) : Json()}};
}

Json message_json(const MessageForm& form, Json content, const TokenUsage& usage) {
  return {{"id", form.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", form.model},
          {"content", std::move(content)},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", usage_json(usage)}};
}

Json tool_block(const ToolBegin& call) {
  std::string id = call.id;
  if (id.starts_with("call_")) id.replace(0, 5, "toolu_");
  return {{"type", "tool_use"},
          {"id", std::move(id)},
          {"name", call.name},
          {"input", Json::object()},
          {"caller", {{"type", "direct"}}}};
}

// The object that the text is, or the start of it where the answer was cut.
Json object_of(const std::string& text) {
  JsonScanner scanner;
  std::string whole;
  for (const char c : text) scanner.push(c, whole);
  scanner.complete(whole);
  const Json value = Json::parse(whole, nullptr, false);
  return value.is_object() ? value : Json::object();
}

class MessageObject : public AnswerWriter {
 public:
  explicit MessageObject(MessageForm form) : form_(std::move(form)) {}
  void begin(std::string&) override {}
  void write(const ChoicePiece& piece, std::string&) override {
    std::visit([&](const auto& what) { add(what); }, piece.what);
  }
  void fail(const ApiError& error, std::string& out) override { out = dump(anthropic_error_body(error)); }
  void end(std::string& out) override {
    Json message = message_json(form_, std::move(content_), end_.usage);
    message.update(ending(end_, called_));
    out = dump(message);
  }

 private:
  Json& block(const char* type, const char* field) {
    if (content_.empty() || content_.back().at("type") != type) content_.push_back({{"type", type}, {field, ""}});
    return content_.back().at(field);
  }
  static void append(Json& text, const std::string& more) { text.get_ref<std::string&>() += more; }

  void add(const PromptScores&) {}
  void add(const ReasoningText& piece) {
    append(block("thinking", "thinking"), piece.text);
    content_.back()["signature"] = "";
  }
  void add(const ContentText& piece) {
    if (piece.text.empty()) return;
    append(block("text", "text"), piece.text);
    content_.back()["citations"] = nullptr;
  }
  void add(const ToolBegin& piece) {
    content_.push_back(tool_block(piece));
    arguments_.clear();
    called_ = true;
  }
  void add(const ToolArguments& piece) { arguments_ += piece.text; }
  void add(const ToolEnd&) { content_.back()["input"] = object_of(arguments_); }
  void add(const ChoiceEnd& piece) { end_ = piece; }

  MessageForm form_;
  Json content_ = Json::array();
  std::string arguments_;
  bool called_ = false;
  ChoiceEnd end_;
};

class MessageStream : public AnswerWriter {
 public:
  explicit MessageStream(MessageForm form) : form_(std::move(form)) {}

  void begin(std::string& out) override {
    const Json message = message_json(form_, Json::array(), {.prompt = form_.prompt_tokens});
    send(out, {{"type", "message_start"}, {"message", message}});
    send(out, {{"type", "ping"}});
  }
  void write(const ChoicePiece& piece, std::string& out) override {
    std::visit([&](const auto& what) { add(out, what); }, piece.what);
  }
  void fail(const ApiError& error, std::string& out) override { send(out, anthropic_error_body(error)); }
  void end(std::string& out) override {
    close(out);
    send(out, {{"type", "message_delta"}, {"delta", ending(end_, called_)}, {"usage", usage_json(end_.usage)}});
    send(out, {{"type", "message_stop"}});
  }

 private:
  enum class Open { Nothing, Thinking, Text, Tool };

  static void send(std::string& out, const Json& event) {
    append_event(out, dump(event), event.at("type").get_ref<const std::string&>());
  }
  void open(std::string& out, Open kind, Json block) {
    close(out);
    open_ = kind;
    send(out, {{"type", "content_block_start"}, {"index", ++index_}, {"content_block", std::move(block)}});
  }
  void delta(std::string& out, const char* type, const char* field, const std::string& text) {
    send(out, {{"type", "content_block_delta"}, {"index", index_}, {"delta", {{"type", type}, {field, text}}}});
  }
  void close(std::string& out) {
    const Open was = std::exchange(open_, Open::Nothing);
    if (was == Open::Nothing) return;
    if (was == Open::Thinking) delta(out, "signature_delta", "signature", "");
    send(out, {{"type", "content_block_stop"}, {"index", index_}});
  }

  void add(std::string&, const PromptScores&) {}
  void add(std::string& out, const ReasoningText& piece) {
    if (open_ != Open::Thinking) open(out, Open::Thinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    delta(out, "thinking_delta", "thinking", piece.text);
  }
  void add(std::string& out, const ContentText& piece) {
    if (piece.text.empty()) return;
    if (open_ != Open::Text) open(out, Open::Text, {{"type", "text"}, {"text", ""}, {"citations", nullptr}});
    delta(out, "text_delta", "text", piece.text);
  }
  void add(std::string& out, const ToolBegin& piece) {
    open(out, Open::Tool, tool_block(piece));
    called_ = true;
  }
  void add(std::string& out, const ToolArguments& piece) { delta(out, "input_json_delta", "partial_json", piece.text); }
  void add(std::string& out, const ToolEnd&) { close(out); }
  void add(std::string&, const ChoiceEnd& piece) { end_ = piece; }

  MessageForm form_;
  Open open_ = Open::Nothing;
  int index_ = -1;
  bool called_ = false;
  ChoiceEnd end_;
};

}  // namespace

std::unique_ptr<AnswerWriter> message_object_writer(MessageForm form) {
  return std::make_unique<MessageObject>(std::move(form));
}

std::unique_ptr<AnswerWriter> message_stream_writer(MessageForm form) {
  return std::make_unique<MessageStream>(std::move(form));
}

}  // namespace braid::server
