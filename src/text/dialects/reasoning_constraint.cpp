// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/reasoning_constraint.h"

#include <algorithm>
#include <utility>

#include "text/dialects/partial_match.h"

namespace braid {
namespace {

size_t word_of(int32_t token) { return static_cast<size_t>(token) / 32; }
uint32_t bit_of(int32_t token) { return uint32_t{1} << (token % 32); }

bool has(std::span<const int32_t> words, int32_t token) {
  return word_of(token) < words.size() && (static_cast<uint32_t>(words[word_of(token)]) & bit_of(token)) != 0;
}
void add(std::span<int32_t> words, int32_t token) {
  words[word_of(token)] = static_cast<int32_t>(static_cast<uint32_t>(words[word_of(token)]) | bit_of(token));
}
void remove(std::span<int32_t> words, int32_t token) {
  if (has(words, token)) words[word_of(token)] ^= static_cast<int32_t>(bit_of(token));
}

}  // namespace

ReasoningTokens::ReasoningTokens(const Tokenizer& the_tokenizer, const Dialect& dialect,
                                 std::span<const int32_t> end_tokens)
    : tokenizer(the_tokenizer),
      marks(dialect.reasoning.value_or(ReasoningMarks{})),
      open(tokenizer.token_to_id(marks.open)),
      close(tokenizer.encode(marks.close, {.add_special_tokens = false})),
      barred(end_tokens.begin(), end_tokens.end()) {
  if (const auto call = tokenizer.token_to_id("<tool_call>"); call && dialect.tools != ToolForm::None)
    barred.push_back(*call);
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    if (!piece.empty() && piece.find_first_not_of(" \t\r\n") == std::string_view::npos) space.push_back(id);
  }
}

ReasoningConstraint::ReasoningConstraint(std::shared_ptr<const ReasoningTokens> tokens, ReasoningLimits limits,
                                         std::unique_ptr<TokenConstraint> answer)
    : tokens_(std::move(tokens)), limits_(limits), answer_(std::move(answer)) {
  if (limits_.start == ReasoningStart::Open) place_.phase = Phase::Thoughts;
  if (limits_.start == ReasoningStart::Closed || limits_.start == ReasoningStart::Answering)
    place_.phase = Phase::Answer;
}

bool ReasoningConstraint::narrow(std::span<int32_t> words) {
  if (place_.phase == Phase::Thoughts) {
    if (limits_.budget && place_.thoughts >= *limits_.budget && place_.forced < tokens_->close.size()) {
      std::fill(words.begin(), words.end(), 0);
      add(words, tokens_->close[place_.forced]);
      return true;
    }
    if (!answer_) return false;
    for (const int32_t token : tokens_->barred) remove(words, token);
    return true;
  }
  if (!answer_) return false;
  if (place_.phase == Phase::Answer) return answer_->narrow(words);
  // What the answer may begin with, or what may come before it.
  allowed_.assign(words.begin(), words.end());
  if (!answer_->narrow(allowed_)) return false;
  if (place_.phase == Phase::Start && tokens_->open && has(words, *tokens_->open)) add(allowed_, *tokens_->open);
  if (place_.phase == Phase::Gap && place_.gap < kGap)
    for (const int32_t token : tokens_->space)
      if (has(words, token)) add(allowed_, token);
  std::copy(allowed_.begin(), allowed_.end(), words.begin());
  return true;
}

bool ReasoningConstraint::may_end() const { return !answer_ || (!waits() && answer_->may_end()); }

bool ReasoningConstraint::finished() const { return answer_ && !waits() && answer_->finished(); }

void ReasoningConstraint::advance(int32_t token) {
  if (place_.phase == Phase::Answer) {
    ++answered_;
    if (answer_) answer_->advance(token);
    return;
  }
  before_.push_back(place_);
  const bool space = std::binary_search(tokens_->space.begin(), tokens_->space.end(), token);
  if (place_.phase == Phase::Thoughts) {
    advance_thought(token);
  } else if (place_.phase == Phase::Start && token == tokens_->open) {
    place_.phase = Phase::Thoughts;
  } else if (place_.phase == Phase::Gap && place_.gap < kGap && space) {
    ++place_.gap;
  } else {
    place_ = {.phase = Phase::Answer};
    if (answer_) answer_->advance(token);
    ++answered_;
  }
}

void ReasoningConstraint::advance_thought(int32_t token) {
  const bool forced = limits_.budget && place_.thoughts >= *limits_.budget && place_.forced < tokens_->close.size() &&
                      token == tokens_->close[place_.forced];
  ++place_.thoughts;
  if (forced) ++place_.forced;
  place_.tail += tokens_->tokenizer.piece(token);
  if (place_.tail.find(tokens_->marks.close) != std::string::npos) {
    place_ = {.phase = Phase::Gap};
  } else {
    place_.tail.erase(0, place_.tail.size() - partial_match(place_.tail, tokens_->marks.close));
  }
}

void ReasoningConstraint::rollback(int64_t tokens) {
  const int64_t of_answer = std::min(tokens, answered_);
  if (answer_ && of_answer > 0) answer_->rollback(of_answer);
  answered_ -= of_answer;
  tokens -= of_answer;
  // The first token of the answer after thoughts is in both counts.
  if (of_answer > 0 && answered_ == 0 && !before_.empty()) ++tokens;
  for (; tokens > 0 && !before_.empty(); --tokens) {
    place_ = before_.back();
    before_.pop_back();
  }
}

}  // namespace braid
