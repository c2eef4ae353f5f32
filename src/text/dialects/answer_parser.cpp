// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/answer_parser.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/rng.h"

namespace braid {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>", kFunction = "<function=";

using Kind = AnswerPiece::Kind;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool starts(std::string_view mark, std::string_view text) { return mark.starts_with(text); }

std::string call_id(uint64_t key, int index) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string out = "call_";
  for (uint32_t block = 0; block < 6; ++block)
    for (const uint32_t bits : philox({static_cast<uint32_t>(index), block, 0, 0}, key))
      out += kDigits[bits % kDigits.size()];
  return out;
}

}  // namespace

AnswerParser::AnswerParser(AnswerParserOptions options) : options_(std::move(options)), types_(options_.tools) {
  if (options_.held) options_.dialect.tools = ToolForm::None;
  if (options_.dialect.reasoning) {
    reasoning_marks_ = {options_.dialect.reasoning->open, options_.dialect.reasoning->close};
    marks_ = reasoning_marks_;
  }
  if (options_.dialect.tools != ToolForm::None) {
    reasoning_marks_.emplace_back(kCall);
    marks_.insert(marks_.end(), {std::string(kCall), std::string(kCallEnd)});
  }
  if (options_.dialect.tools == ToolForm::Xml) marks_.emplace_back(kFunction);
  verbatim_ = options_.start == ReasoningStart::Unopened || options_.start == ReasoningStart::Answering;
  if (options_.start == ReasoningStart::Open && options_.dialect.reasoning) place_ = Place::Reasoning;
}

std::vector<AnswerPiece> AnswerParser::push(std::string_view text) {
  for (const char c : text) step(c);
  return std::exchange(out_, {});
}

void AnswerParser::step(char c) {
  switch (place_) {
    case Place::Reasoning:
    case Place::Content:
      return step_text(c);
    case Place::CallStart:
      return step_call_start(c);
    case Place::Call:
      return step_call(c);
    case Place::AfterCall:
      return step_after_call(c);
  }
}

// The marks that count here.
std::span<const std::string> AnswerParser::marks() const {
  if (place_ == Place::Reasoning) return reasoning_marks_;
  if (!options_.held) return marks_;
  // Of an answer that is held to a form, an opening mark at its very beginning.
  const bool beginning = options_.start == ReasoningStart::Unopened && verbatim_ && !begun_;
  return std::span(marks_).first(beginning && !marks_.empty() ? 1 : 0);
}

void AnswerParser::step_text(char c) {
  held_ += c;
  while (!held_.empty()) {
    bool partial = false;
    for (const std::string& mark : marks()) {
      if (held_ == mark) return take_mark(std::exchange(held_, {}));
      partial = partial || starts(mark, held_);
    }
    if (partial) return;
    put_text(held_.front());
    held_.erase(0, 1);
  }
}

void AnswerParser::take_mark(std::string_view mark) {
  before_ = place_;
  if (mark == kCall) return enter(Place::CallStart);
  if (mark == kFunction) {
    enter(Place::CallStart);
    raw_ = kFunction;
    return start_call(make_xml_call(types_));
  }
  if (mark == kCallEnd) return enter(Place::Content);
  const bool opens = mark == options_.dialect.reasoning->open;
  if (place_ == Place::Reasoning && opens) return;  // open already
  enter(opens ? Place::Reasoning : Place::Content);
}

void AnswerParser::enter(Place place) {
  place_ = place;
  begun_ = verbatim_ = false;
  space_.clear();
  held_.clear();
  raw_.clear();
}

void AnswerParser::put_text(char c) {
  const bool waits = place_ == Place::Reasoning || !begun_ || options_.dialect.tools != ToolForm::None;
  if (is_space(c) && waits) {
    space_ += c;
    return;
  }
  const Kind kind = place_ == Place::Reasoning ? Kind::Reasoning : Kind::Content;
  if (begun_ || verbatim_) emit({.kind = kind, .text = space_});
  space_.clear();
  begun_ = true;
  emit({.kind = kind, .text = std::string(1, c)});
}

void AnswerParser::start_call(std::unique_ptr<CallReader> reader) {
  reader_ = std::move(reader);
  named_ = false;
  place_ = Place::Call;
}

void AnswerParser::step_call_start(char c) {
  raw_ += c;
  if (held_.empty() && is_space(c)) return;
  if (held_.empty() && c == '{') {
    start_call(make_json_call());
    CallNews news;
    reader_->push(c, news);
    return;
  }
  held_ += c;
  if (held_ == kFunction) {
    held_.clear();
    return start_call(make_xml_call(types_));
  }
  if (held_ == kCallEnd) return enter(Place::Content);
  if (starts(kFunction, held_) || starts(kCallEnd, held_)) return;
  give_up(held_.size());
}

void AnswerParser::announce(std::string_view what) {
  if (malformed_++ == 0) log::warn("tool_call malformed=true after_calls={} {}", calls_, what);
}

// What was taken for a call becomes text; its last `open` characters may be the start of a mark.
void AnswerParser::give_up(size_t open) {
  announce(before_ == Place::Content ? "shown_as=content" : "shown_as=reasoning");
  std::string text = raw_.substr(0, raw_.size() - open);
  const std::string rest = raw_.substr(text.size());
  reader_.reset();
  enter(before_);
  for (const std::string& mark : marks_)
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) text.erase(at, mark.size());
  for (const char c : text) put_text(c);
  for (const char c : rest) step(c);
}

void AnswerParser::step_call(char c) {
  if (!named_) raw_ += c;
  CallNews news;
  const CallReader::Result result = reader_->push(c, news);
  take_news(news);
  if (result == CallReader::Result::More) return;
  if (!named_) return give_up(1);
  const std::string rest = reader_->rest();
  if (result == CallReader::Result::Broken) {
    announce("closed=true");
    CallNews last;
    reader_->complete(last);
    take_news(last);
  }
  end_call(true);
  for (const char next : rest) step(next);
}

void AnswerParser::take_news(CallNews& news) {
  if (news.name) {
    named_ = true;
    raw_.clear();
    emit({.kind = Kind::ToolBegin, .text = *news.name, .tool = calls_, .id = call_id(options_.id_key, calls_)});
    ++calls_;
  }
  emit({.kind = Kind::ToolArguments, .text = std::move(news.arguments), .tool = calls_ - 1});
}

void AnswerParser::end_call(bool whole) {
  emit({.kind = Kind::ToolEnd, .tool = calls_ - 1, .whole = whole});
  reader_.reset();
  before_ = Place::Content;
  enter(Place::AfterCall);
}

void AnswerParser::step_after_call(char c) {
  if (held_.empty() && is_space(c)) return;
  if (held_.empty() && c == '{') {
    enter(Place::CallStart);
    return step_call_start(c);
  }
  held_ += c;
  if (held_ == kCallEnd) return enter(Place::Content);
  if (held_ == kCall) return enter(Place::CallStart);
  if (held_ == kFunction) {
    enter(Place::CallStart);
    raw_ = kFunction;
    return start_call(make_xml_call(types_));
  }
  for (const std::string_view mark : {kCallEnd, kCall, kFunction})
    if (starts(mark, held_)) return;
  const std::string text = held_;
  enter(Place::Content);
  for (const char next : text) step_text(next);
}

std::vector<AnswerPiece> AnswerParser::finish(bool cut) {
  if (place_ == Place::Call && named_) {
    if (!cut) {
      announce("closed=true");
      CallNews news;
      reader_->complete(news);
      take_news(news);
    }
    end_call(!cut);
  } else if ((place_ == Place::Call || place_ == Place::CallStart) && !raw_.empty()) {
    give_up(0);
  }
  const bool text = place_ == Place::Reasoning || place_ == Place::Content;
  if (place_ == Place::AfterCall && !held_.empty()) place_ = Place::Content;
  for (const char c : std::exchange(held_, {})) put_text(c);
  if (text && place_ == Place::Content && begun_) emit({.kind = Kind::Content, .text = std::exchange(space_, {})});
  return std::exchange(out_, {});
}

void AnswerParser::emit(AnswerPiece piece) {
  const bool joins = piece.kind != Kind::ToolBegin && piece.kind != Kind::ToolEnd;
  if (joins && piece.text.empty()) return;
  if (joins && !out_.empty() && out_.back().kind == piece.kind) {
    out_.back().text += piece.text;
  } else {
    out_.push_back(std::move(piece));
  }
}

}  // namespace braid
