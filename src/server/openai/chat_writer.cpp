// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chat_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "base/utf8.h"
#include "server/openai/chunk_stream.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

// What JSON cannot say is said by the least number that clients take for impossible.
double finite(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

Json token_json(const Tokenizer* tokenizer, int32_t token, float logprob) {
  const std::string piece = tokenizer != nullptr ? std::string(tokenizer->piece(token)) : std::to_string(token);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return {{"token", to_valid_utf8(piece)}, {"logprob", finite(logprob)}, {"bytes", std::move(bytes)}};
}

const char* finish_reason(const ChoiceEnd& end, bool calls) {
  if (end.end == AnswerEnd::Length) return "length";
  return calls || end.end == AnswerEnd::ToolCalls ? "tool_calls" : "stop";
}

Json scores_json(const ChatForm& form, const std::vector<TokenScores>& scores) {
  if (!form.scores) return {};
  Json content = Json::array();
  for (const TokenScores& token : scores) content.push_back(openai_scores(form.tokenizer, token));
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json prompt_scores_json(const ChatForm& form, const std::vector<PromptLogprob>& scores) {
  return openai_prompt_scores(form.tokenizer, form.prompt_tokens, scores);
}

class ChatObject : public AnswerWriter {
 public:
  explicit ChatObject(ChatForm form) : form_(std::move(form)), answers_(static_cast<size_t>(form_.choices)) {}
  void begin(std::string&) override {}
  void write(const ChoicePiece& piece, std::string&) override {
    answers_[static_cast<size_t>(piece.choice)].add(piece);
  }
  void fail(const ApiError& error, std::string& out) override { out = dump(openai_error_body(error)); }

  void end(std::string& out) override {
    Json choices = Json::array();
    for (size_t i = 0; i < answers_.size(); ++i) choices.push_back(choice(i));
    Json body = {{"id", form_.id},
                 {"object", "chat.completion"},
                 {"created", form_.created},
                 {"model", form_.model},
                 {"choices", std::move(choices)},
                 {"usage", openai_usage(total_usage(answers_))},
                 {"system_fingerprint", nullptr}};
    if (!answers_[0].prompt_scores.empty())
      body["prompt_logprobs"] = prompt_scores_json(form_, answers_[0].prompt_scores);
    out = dump(body);
  }

 private:
  Json choice(size_t index) const {
    const CollectedAnswer& answer = answers_[index];
    Json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
    if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
    if (!answer.calls.empty()) {
      if (answer.content.empty()) message["content"] = nullptr;
      Json& calls = message["tool_calls"] = Json::array();
      for (const CollectedCall& call : answer.calls)
        calls.push_back({{"id", call.id},
                         {"type", "function"},
                         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return {{"index", index},
            {"message", std::move(message)},
            {"logprobs", scores_json(form_, answer.scores)},
            {"finish_reason", finish_reason(answer.end, !answer.calls.empty())}};
  }

  ChatForm form_;
  std::vector<CollectedAnswer> answers_;
};

class ChatStream : public ChunkStream {
 public:
  explicit ChatStream(ChatForm form)
      : ChunkStream({form.id, "chat.completion.chunk", form.model, form.created, form.stream_usage}),
        form_(std::move(form)),
        called_(static_cast<size_t>(form_.choices)) {}

  void begin(std::string& out) override {
    for (int choice = 0; choice < form_.choices; ++choice)
      append_delta(out, choice, {{"role", "assistant"}, {"content", ""}});
  }

  void write(const ChoicePiece& piece, std::string& out) override {
    std::visit([&](const auto& what) { append(out, piece.choice, what); }, piece.what);
  }

 private:
  void append_delta(std::string& out, int choice, Json delta, Json scores = {}) const {
    append_choice(
        out,
        {{"index", choice}, {"delta", std::move(delta)}, {"logprobs", std::move(scores)}, {"finish_reason", nullptr}});
  }

  static Json call_delta(int call, Json rest) {
    rest["index"] = call;
    return {{"tool_calls", Json::array({std::move(rest)})}};
  }

  void append(std::string& out, int choice, const PromptScores& piece) {
    append_delta(out, choice, {{"prompt_logprobs", prompt_scores_json(form_, piece.tokens)}});
  }
  void append(std::string& out, int choice, const ReasoningText& piece) {
    append_delta(out, choice, {{"reasoning_content", piece.text}});
  }
  void append(std::string& out, int choice, const ContentText& piece) {
    append_delta(out, choice, {{"content", piece.text}}, scores_json(form_, piece.scores));
  }
  void append(std::string& out, int choice, const ToolBegin& piece) {
    called_[static_cast<size_t>(choice)] = true;
    append_delta(
        out, choice,
        call_delta(piece.call,
                   {{"id", piece.id}, {"type", "function"}, {"function", {{"name", piece.name}, {"arguments", ""}}}}));
  }
  void append(std::string& out, int choice, const ToolArguments& piece) {
    append_delta(out, choice, call_delta(piece.call, {{"function", {{"arguments", piece.text}}}}));
  }
  void append(std::string&, int, const ToolEnd&) {}
  void append(std::string& out, int choice, const ChoiceEnd& piece) {
    count(piece.usage);
    append_choice(out, {{"index", choice},
                        {"delta", Json::object()},
                        {"logprobs", nullptr},
                        {"finish_reason", finish_reason(piece, called_[static_cast<size_t>(choice)])}});
  }

  ChatForm form_;
  std::vector<bool> called_;
};

}  // namespace

Json openai_usage(const TokenUsage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning}}}};
}

Json openai_scores(const Tokenizer* tokenizer, const TokenScores& scores) {
  Json out = token_json(tokenizer, scores.token, scores.logprob);
  Json& top = out["top_logprobs"] = Json::array();
  for (const TokenLogprob& other : scores.top) top.push_back(token_json(tokenizer, other.token, other.logprob));
  return out;
}

Json openai_prompt_scores(const Tokenizer* tokenizer, std::span<const int32_t> tokens,
                          const std::vector<PromptLogprob>& scores) {
  Json out = Json::array({nullptr});
  const auto add = [&](Json& entry, int32_t token, float logprob) {
    const std::string piece = tokenizer != nullptr ? std::string(tokenizer->piece(token)) : std::to_string(token);
    entry[std::to_string(token)] = {{"logprob", finite(logprob)}, {"decoded_token", to_valid_utf8(piece)}};
  };
  for (size_t i = 0; i < scores.size(); ++i) {
    Json& entry = out.emplace_back(Json::object());
    add(entry, tokens[i + 1], scores[i].logprob);
    for (const TokenLogprob& other : scores[i].top) add(entry, other.token, other.logprob);
  }
  return out;
}

std::unique_ptr<AnswerWriter> chat_object_writer(ChatForm form) {
  return std::make_unique<ChatObject>(std::move(form));
}
std::unique_ptr<AnswerWriter> chat_stream_writer(ChatForm form) {
  return std::make_unique<ChatStream>(std::move(form));
}

}  // namespace braid::server
