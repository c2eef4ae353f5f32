// SPDX-License-Identifier: Apache-2.0
#include "server/chat/answer_reader.h"

#include <fmt/format.h>

#include <utility>

namespace braid::server {

AnswerReader::AnswerReader(Options options) : options_(std::move(options)), stops_(options_.stop) {
  if (options_.tokenizer != nullptr) decoder_.emplace(*options_.tokenizer, options_.skip_special);
  if (options_.parser) parser_.emplace(*options_.parser);
  usage_.prompt = options_.prompt_tokens;
}

Verdict AnswerReader::take(const Event& event, std::vector<ChoicePiece>& out) {
  if (event.usage && options_.prompt_tokens > 0) {
    usage_.cached = event.usage->cached;
    usage_.limit = event.usage->limit;
  }
  if (!event.prompt_logprobs.empty()) out.push_back({options_.choice, PromptScores{event.prompt_logprobs}});
  if (event.token >= 0) {
    ++usage_.completion;
    if (parser_ && parser_->in_reasoning()) ++usage_.reasoning;
  }
  if (event.finish) {
    end(event, out);
    return Verdict::Stop;
  }
  if (options_.scores) scores_.push_back({event.token, event.logprob, event.top});
  if (is_mark(event.token)) {
    take_text(decoder_->finish(), out);
    if (!stops_.stopped()) show(stops_.push_mark(options_.tokenizer->piece(event.token)), out);
  } else {
    take_text(decoder_ ? decoder_->push(event.token) : fmt::format("{} ", event.token), out);
  }
  return stops_.stopped() ? Verdict::Stop : Verdict::Continue;
}

// Marks of thoughts and calls are read even where the tokenizer counts them among what is skipped.
bool AnswerReader::is_mark(int32_t token) const {
  return parser_ && decoder_ && braid::is_mark(options_.parser->dialect, options_.tokenizer->piece(token));
}

void AnswerReader::take_text(std::string_view text, std::vector<ChoicePiece>& out) {
  if (!stops_.stopped()) show(stops_.push(text), out);
}

void AnswerReader::show(std::string text, std::vector<ChoicePiece>& out) {
  if (stops_.stopped() && options_.include_stop) text += stops_.found();
  if (parser_)
    emit(parser_->push(text), out);
  else
    emit_content(std::move(text), out);
}

void AnswerReader::emit_content(std::string text, std::vector<ChoicePiece>& out) {
  if (text.empty()) return;
  // The tokens of marks and of the space around them are no part of the content.
  if (!std::exchange(content_begun_, true) && decoder_) {
    size_t bytes = 0;
    for (const TokenScores& token : scores_) bytes += options_.tokenizer->piece(token.token).size();
    while (!scores_.empty() && bytes > text.size()) {
      bytes -= options_.tokenizer->piece(scores_.front().token).size();
      scores_.erase(scores_.begin());
    }
  }
  out.push_back({options_.choice, ContentText{std::move(text), std::exchange(scores_, {})}});
}

void AnswerReader::emit(std::vector<AnswerPiece> pieces, std::vector<ChoicePiece>& out) {
  const auto put = [&](auto what) {
    content_begun_ = false;
    scores_.clear();
    out.push_back({options_.choice, std::move(what)});
  };
  for (AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case AnswerPiece::Kind::Reasoning:
        put(ReasoningText{std::move(piece.text)});
        break;
      case AnswerPiece::Kind::Content:
        emit_content(std::move(piece.text), out);
        break;
      case AnswerPiece::Kind::ToolBegin:
        put(ToolBegin{piece.tool, std::move(piece.id), std::move(piece.text)});
        break;
      case AnswerPiece::Kind::ToolArguments:
        put(ToolArguments{piece.tool, std::move(piece.text)});
        break;
      case AnswerPiece::Kind::ToolEnd:
        put(ToolEnd{piece.tool});
        break;
    }
  }
  if (parser_->in_reasoning()) scores_.clear();
}

void AnswerReader::end(const Event& event, std::vector<ChoicePiece>& out) {
  const bool cut = event.finish != FinishReason::Stop || stops_.stopped();
  if (decoder_) take_text(decoder_->finish(), out);
  if (!stops_.stopped()) {
    std::string rest = stops_.finish();
    if (parser_)
      emit(parser_->push(rest), out);
    else
      emit_content(std::move(rest), out);
  }
  if (parser_) emit(parser_->finish(cut), out);
  ChoiceEnd last{.stop = stops_.found(), .error = event.error, .usage = usage_};
  switch (*event.finish) {
    case FinishReason::Stop:
      last.end = parser_ && parser_->calls() > 0 ? AnswerEnd::ToolCalls : AnswerEnd::Stop;
      break;
    case FinishReason::Length:
    case FinishReason::Context:
      last.end = AnswerEnd::Length;
      break;
    case FinishReason::Cancelled:
      last.end = AnswerEnd::Cancelled;
      break;
    case FinishReason::Error:
      last.end = AnswerEnd::Error;
      break;
  }
  out.push_back({options_.choice, std::move(last)});
}

}  // namespace braid::server
