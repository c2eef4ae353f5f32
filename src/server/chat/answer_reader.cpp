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
  take_text(text_of(event.token), out);
  return stops_.stopped() ? Verdict::Stop : Verdict::Continue;
}

// Marks of thoughts and calls are read even where the tokenizer counts them among what is skipped.
std::string AnswerReader::text_of(int32_t token) {
  if (!decoder_) return fmt::format("{} ", token);
  if (parser_ && options_.skip_special && options_.tokenizer->is_special(token)) {
    const std::string_view piece = options_.tokenizer->piece(token);
    const Dialect& dialect = options_.parser->dialect;
    const bool mark = (dialect.reasoning && (piece == dialect.reasoning->open || piece == dialect.reasoning->close)) ||
                      (dialect.tools != ToolForm::None && (piece == "<tool_call>" || piece == "</tool_call>"));
    if (mark) return decoder_->finish().append(piece);
  }
  return decoder_->push(token);
}

void AnswerReader::take_text(const std::string& text, std::vector<ChoicePiece>& out) {
  if (stops_.stopped()) return;
  std::string shown = stops_.push(text);
  if (stops_.stopped() && options_.include_stop) shown += stops_.found();
  if (parser_)
    emit(parser_->push(shown), out);
  else
    emit_content(std::move(shown), out);
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
