// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_writer.h"

#include <ctime>
#include <utility>
#include <variant>

#include "server/call.h"
#include "server/openai/chat_writer.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

Json usage_json(const TokenUsage& usage) {
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

// The words that thoughts are told in: as they are, or as a summary.
struct ReasoningWords {
  const char *field, *part, *index, *part_added, *delta, *done, *part_done;
};
constexpr ReasoningWords kPlain{"content",
                                "reasoning_text",
                                "content_index",
                                "response.content_part.added",
                                "response.reasoning_text.delta",
                                "response.reasoning_text.done",
                                "response.content_part.done"};
constexpr ReasoningWords kSummary{"summary",
                                  "summary_text",
                                  "summary_index",
                                  "response.reasoning_summary_part.added",
                                  "response.reasoning_summary_text.delta",
                                  "response.reasoning_summary_text.done",
                                  "response.reasoning_summary_part.done"};

class ResponseWriter : public AnswerWriter {
 public:
  explicit ResponseWriter(ResponseForm form) : form_(std::move(form)), words_(form_.summary ? kSummary : kPlain) {
    response_ = {{"id", form_.id}, {"object", "response"}, {"created_at", form_.created}, {"status", "in_progress"}};
    response_.update(form_.echo);
  }

  void begin(std::string& out) override {
    send(out, {{"type", "response.created"}, {"response", response_}});
    send(out, {{"type", "response.in_progress"}, {"response", response_}});
  }
  void write(const ChoicePiece& piece, std::string& out) override {
    std::visit([&](const auto& what) { add(out, what); }, piece.what);
  }

  void end(std::string& out) override {
    const bool cut = end_.end == AnswerEnd::Length;
    close(out, cut);
    response_["status"] = cut ? "incomplete" : "completed";
    if (!cut) response_["completed_at"] = static_cast<int64_t>(std::time(nullptr));
    if (cut) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response_["usage"] = usage_json(end_.usage);
    send(out, {{"type", cut ? "response.incomplete" : "response.completed"}, {"response", response_}});
    if (form_.keep) form_.keep(response_, messages());
    if (!form_.streamed) out += dump(response_);
  }

  void fail(const ApiError& error, std::string& out) override {
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.message}};
    send(out, {{"type", "response.failed"}, {"response", response_}});
  }

 private:
  enum class Open { Nothing, Reasoning, Message, Call };

  void send(std::string& out, Json event) {
    if (!form_.streamed) return;
    event["sequence_number"] = sequence_++;
    append_event(out, dump(event), event.at("type").get_ref<const std::string&>());
  }

  Json& item() { return response_["output"].back(); }
  size_t index() const { return response_.at("output").size() - 1; }
  // An event about the item that is open.
  Json about(const char* type) { return {{"type", type}, {"item_id", item().at("id")}, {"output_index", index()}}; }

  void open(std::string& out, Open kind, Json fresh) {
    close(out, false);
    open_ = kind;
    text_.clear();
    fresh["status"] = "in_progress";
    response_["output"].push_back(fresh);
    send(out, {{"type", "response.output_item.added"}, {"output_index", index()}, {"item", std::move(fresh)}});
  }

  void close(std::string& out, bool cut) {
    const Open was = std::exchange(open_, Open::Nothing);
    if (was == Open::Nothing) return;
    if (was == Open::Reasoning) close_reasoning(out);
    if (was == Open::Message) close_message(out);
    if (was == Open::Call) {
      item()["arguments"] = text_;
      Json event = about("response.function_call_arguments.done");
      event["name"] = item().at("name");
      event["arguments"] = text_;
      send(out, std::move(event));
    }
    item()["status"] = cut ? "incomplete" : "completed";
    send(out, {{"type", "response.output_item.done"}, {"output_index", index()}, {"item", item()}});
  }

  Json reasoning_part() const { return {{"type", words_.part}, {"text", text_}}; }

  void close_reasoning(std::string& out) {
    item()[words_.field] = Json::array({reasoning_part()});
    Json done = about(words_.done);
    done[words_.index] = 0;
    done["text"] = text_;
    send(out, std::move(done));
    Json part = about(words_.part_done);
    part[words_.index] = 0;
    part["part"] = reasoning_part();
    send(out, std::move(part));
  }

  Json text_part() const {
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", scores_}};
  }

  void close_message(std::string& out) {
    item()["content"] = Json::array({text_part()});
    Json done = about("response.output_text.done");
    done["content_index"] = 0;
    done["text"] = text_;
    done["logprobs"] = scores_;
    send(out, std::move(done));
    Json part = about("response.content_part.done");
    part["content_index"] = 0;
    part["part"] = text_part();
    send(out, std::move(part));
  }

  void add(std::string&, const PromptScores&) {}
  void add(std::string& out, const ReasoningText& piece) {
    if (open_ != Open::Reasoning) {
      open(out, Open::Reasoning, {{"id", fresh_id("rs_")}, {"type", "reasoning"}, {"summary", Json::array()}});
      Json part = about(words_.part_added);
      part[words_.index] = 0;
      part["part"] = reasoning_part();
      send(out, std::move(part));
    }
    text_ += piece.text;
    Json event = about(words_.delta);
    event[words_.index] = 0;
    event["delta"] = piece.text;
    send(out, std::move(event));
  }

  void add(std::string& out, const ContentText& piece) {
    if (piece.text.empty() && open_ != Open::Message) return;
    if (open_ != Open::Message) {
      scores_ = Json::array();
      open(out, Open::Message,
           {{"id", fresh_id("msg_")}, {"type", "message"}, {"role", "assistant"}, {"content", Json::array()}});
      Json part = about("response.content_part.added");
      part["content_index"] = 0;
      part["part"] = text_part();
      send(out, std::move(part));
    }
    Json scores = Json::array();
    if (form_.scores)
      for (const TokenScores& token : piece.scores) scores.push_back(openai_scores(form_.tokenizer, token));
    for (const Json& token : scores) scores_.push_back(token);
    text_ += piece.text;
    Json event = about("response.output_text.delta");
    event["content_index"] = 0;
    event["delta"] = piece.text;
    event["logprobs"] = std::move(scores);
    send(out, std::move(event));
  }

  void add(std::string& out, const ToolBegin& piece) {
    open(out, Open::Call,
         {{"id", fresh_id("fc_")},
          {"type", "function_call"},
          {"call_id", piece.id},
          {"name", piece.name},
          {"arguments", ""}});
  }
  void add(std::string& out, const ToolArguments& piece) {
    text_ += piece.text;
    Json event = about("response.function_call_arguments.delta");
    event["delta"] = piece.text;
    send(out, std::move(event));
  }
  void add(std::string& out, const ToolEnd&) { close(out, false); }
  void add(std::string&, const ChoiceEnd& piece) { end_ = piece; }

  // The answer as one message of an assistant.
  Json messages() const {
    Json message = {{"role", "assistant"}, {"content", ""}};
    const auto append = [&](const char* field, const Json& parts) {
      std::string text = message.value(field, "");
      for (const Json& part : parts) text += part.at("text").get_ref<const std::string&>();
      message[field] = std::move(text);
    };
    for (const Json& item : response_.at("output")) {
      if (item.at("type") == "message") append("content", item.at("content"));
      if (item.at("type") == "reasoning") append("reasoning_content", item.at(words_.field));
      if (item.at("type") == "function_call")
        message["tool_calls"].push_back(
            {{"id", item.at("call_id")},
             {"type", "function"},
             {"function", {{"name", item.at("name")}, {"arguments", item.at("arguments")}}}});
    }
    return Json::array({std::move(message)});
  }

  ResponseForm form_;
  ReasoningWords words_;
  Json response_;
  Open open_ = Open::Nothing;
  std::string text_;             // of the open item
  Json scores_ = Json::array();  // of the open message
  int64_t sequence_ = 0;
  ChoiceEnd end_;
};

}  // namespace

std::unique_ptr<AnswerWriter> response_writer(ResponseForm form) {
  return std::make_unique<ResponseWriter>(std::move(form));
}

}  // namespace braid::server
