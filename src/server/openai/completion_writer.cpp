// The forms of a completion: one object, or chunks of a stream.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "base/utf8.h"
#include "server/call.h"
#include "server/openai/chat_writer.h"
#include "server/openai/chunk_stream.h"
#include "server/openai/completion.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

constexpr const char* kObject = "text_completion";

struct CompletionForm {
  std::string id, model;
  int64_t created = 0;
  int choices = 1;  // of each prompt
  bool scores = false, prompt_scores = false, stream_usage = false;
  std::vector<std::string> echoes;
  std::vector<std::vector<int32_t>> prompts;
  const Tokenizer* tokenizer = nullptr;
};

size_t characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += decode_utf8(text, at).bytes) ++count;
  return count;
}

// The four lists of log-probabilities, filled as tokens come.
class ScoreLists {
 public:
  explicit ScoreLists(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  void add(int32_t token, std::optional<float> logprob, std::span<const TokenLogprob> top) {
    const std::string text = name(token);
    lists_["tokens"].push_back(text);
    lists_["token_logprobs"].push_back(logprob ? number(*logprob) : Json());
    Json likely = logprob ? Json::object() : Json();
    for (const TokenLogprob& other : top) likely[name(other.token)] = number(other.logprob);
    if (logprob && !top.empty()) likely[text] = number(*logprob);
    lists_["top_logprobs"].push_back(std::move(likely));
    lists_["text_offset"].push_back(offset_);
    offset_ += characters(text);
  }
  void add(const std::vector<TokenScores>& scores) {
    for (const TokenScores& token : scores) add(token.token, token.logprob, token.top);
  }
  void add_prompt(std::span<const int32_t> tokens, const std::vector<PromptLogprob>& scores) {
    if (tokens.empty()) return;
    add(tokens[0], std::nullopt, {});
    for (size_t i = 0; i < scores.size(); ++i) add(tokens[i + 1], scores[i].logprob, scores[i].top);
  }
  // What came since the last call.
  Json take() { return std::exchange(lists_, empty()); }

 private:
  static Json empty() {
    return {{"tokens", Json::array()},
            {"token_logprobs", Json::array()},
            {"top_logprobs", Json::array()},
            {"text_offset", Json::array()}};
  }
  static Json number(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }
  // Bytes that are no whole characters are written as such.
  std::string name(int32_t token) const {
    const std::string piece = tokenizer_ != nullptr ? std::string(tokenizer_->piece(token)) : std::to_string(token);
    if (is_utf8(piece)) return piece;
    std::string out = "bytes:";
    for (const char c : piece) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return out;
  }

  const Tokenizer* tokenizer_;
  Json lists_ = empty();
  size_t offset_ = 0;
};

const char* finish_reason(const ChoiceEnd& end) { return end.end == AnswerEnd::Length ? "length" : "stop"; }

// What the object and the stream say alike.
class CompletionTexts {
 public:
  explicit CompletionTexts(CompletionForm form)
      : form_(std::move(form)),
        scores_(form_.prompts.size() * static_cast<size_t>(form_.choices), ScoreLists(form_.tokenizer)) {}

  const CompletionForm& form() const { return form_; }
  size_t choices() const { return scores_.size(); }
  size_t prompt_of(int choice) const { return static_cast<size_t>(choice / form_.choices); }
  std::string echo_of(int choice) const { return form_.echoes.empty() ? "" : form_.echoes[prompt_of(choice)]; }
  Json scores_of(int choice) { return form_.scores ? scores_[static_cast<size_t>(choice)].take() : Json(); }
  void add_scores(int choice, const std::vector<TokenScores>& scores) {
    scores_[static_cast<size_t>(choice)].add(scores);
  }
  void add_prompt_scores(int choice, const std::vector<PromptLogprob>& scores) {
    if (form_.scores && !form_.echoes.empty())
      scores_[static_cast<size_t>(choice)].add_prompt(form_.prompts[prompt_of(choice)], scores);
  }
  Json prompt_scores_of(int choice, const std::vector<PromptLogprob>& scores) const {
    return openai_prompt_scores(form_.tokenizer, form_.prompts[prompt_of(choice)], scores);
  }

 private:
  CompletionForm form_;
  std::vector<ScoreLists> scores_;
};

class CompletionObject : public AnswerWriter {
 public:
  explicit CompletionObject(CompletionForm form) : texts_(std::move(form)), answers_(texts_.choices()) {}
  void begin(std::string&) override {}
  void write(const ChoicePiece& piece, std::string&) override {
    answers_[static_cast<size_t>(piece.choice)].add(piece);
  }
  void fail(const ApiError& error, std::string& out) override { out = dump(openai_error_body(error)); }

  void end(std::string& out) override {
    const CompletionForm& form = texts_.form();
    Json body = {{"id", form.id}, {"object", kObject}, {"created", form.created}, {"model", form.model}};
    Json& choices = body["choices"] = Json::array();
    for (int i = 0; i < static_cast<int>(answers_.size()); ++i) {
      const CollectedAnswer& answer = answers_[static_cast<size_t>(i)];
      texts_.add_prompt_scores(i, answer.prompt_scores);
      texts_.add_scores(i, answer.scores);
      choices.push_back({{"index", i},
                         {"text", texts_.echo_of(i) + answer.content},
                         {"logprobs", texts_.scores_of(i)},
                         {"finish_reason", finish_reason(answer.end)}});
      if (form.prompt_scores) choices.back()["prompt_logprobs"] = texts_.prompt_scores_of(i, answer.prompt_scores);
    }
    body["usage"] = openai_usage(total_usage(answers_));
    out = dump(body);
  }

 private:
  CompletionTexts texts_;
  std::vector<CollectedAnswer> answers_;
};

class CompletionStream : public ChunkStream {
 public:
  explicit CompletionStream(CompletionForm form)
      : ChunkStream({form.id, kObject, form.model, form.created, form.stream_usage}),
        texts_(std::move(form)),
        echoed_(texts_.choices()) {}
  void begin(std::string&) override {}

  void write(const ChoicePiece& piece, std::string& out) override {
    const int choice = piece.choice;
    if (const auto* scores = std::get_if<PromptScores>(&piece.what)) texts_.add_prompt_scores(choice, scores->tokens);
    if (!echoed_[static_cast<size_t>(choice)] && !texts_.form().echoes.empty())
      append(out, choice, texts_.echo_of(choice), {});
    echoed_[static_cast<size_t>(choice)] = true;
    if (const auto* text = std::get_if<ContentText>(&piece.what)) {
      texts_.add_scores(choice, text->scores);
      append(out, choice, text->text, {});
    } else if (const auto* end = std::get_if<ChoiceEnd>(&piece.what)) {
      count(end->usage);
      append(out, choice, "", finish_reason(*end));
    }
  }

 private:
  void append(std::string& out, int choice, const std::string& text, Json reason) {
    append_choice(out, {{"index", choice},
                        {"text", text},
                        {"logprobs", texts_.scores_of(choice)},
                        {"finish_reason", std::move(reason)}});
  }

  CompletionTexts texts_;
  std::vector<bool> echoed_;
};

}  // namespace

std::unique_ptr<AnswerWriter> completion_writer(const Service& service, const Completion& completion) {
  CompletionForm form{.id = fresh_id("cmpl-"),
                      .model = completion.model,
                      .created = std::time(nullptr),
                      .choices = completion.answer.choices,
                      .scores = completion.answer.logprobs.has_value(),
                      .prompt_scores = completion.answer.prompt_logprobs.has_value() && completion.echoes.empty(),
                      .stream_usage = completion.stream_usage,
                      .echoes = completion.echoes,
                      .tokenizer = service.model.tokenizer ? &*service.model.tokenizer : nullptr};
  for (const Prompt& prompt : completion.prompts) form.prompts.push_back(prompt.tokens);
  if (completion.stream) return std::make_unique<CompletionStream>(std::move(form));
  return std::make_unique<CompletionObject>(std::move(form));
}

}  // namespace braid::server
