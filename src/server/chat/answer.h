// What a request is answered with, piece by piece, whatever the API that it came through.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace braid::server {

// A token of the answer and the likeliest ones at its place, where log-probabilities were asked for.
struct TokenScores {
  int32_t token = -1;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
};

struct ReasoningText {
  std::string text;
};
struct ContentText {
  std::string text;  // may be empty where only scores came
  std::vector<TokenScores> scores;
};
// A call begins, gets its arguments as pieces of one JSON object, and ends. Calls are numbered from 0 and never
// overlap.
struct ToolBegin {
  int call = 0;
  std::string id, name;
};
struct ToolArguments {
  int call = 0;
  std::string text;
};
struct ToolEnd {
  int call = 0;
};

// Of the prompt's tokens but the first, where they were asked for; before anything else of the choice.
struct PromptScores {
  std::vector<PromptLogprob> tokens;
};

// Of several choices of one prompt the first counts it, so that usages may be added.
struct TokenUsage {
  int64_t prompt = 0, cached = 0;  // cached: of the prompt, not computed again
  int64_t completion = 0, reasoning = 0;
  CacheLimit limit = CacheLimit::None;  // why not more was cached
};

enum class AnswerEnd : uint8_t { Stop, Length, ToolCalls, Cancelled, Error };

// The last piece of a choice.
struct ChoiceEnd {
  AnswerEnd end = AnswerEnd::Stop;
  std::string stop;   // the stop string that ended it
  std::string error;  // one line, where `end` is Error
  TokenUsage usage;   // of this choice
};

struct ChoicePiece {
  int choice = 0;
  std::variant<PromptScores, ReasoningText, ContentText, ToolBegin, ToolArguments, ToolEnd, ChoiceEnd> what;
};

// A whole answer, put together from its pieces.
struct CollectedCall {
  std::string id, name, arguments;
};
struct CollectedAnswer {
  std::string reasoning, content;
  std::vector<CollectedCall> calls;
  std::vector<TokenScores> scores;
  std::vector<PromptLogprob> prompt_scores;
  ChoiceEnd end;

  void add(const ChoicePiece& piece);
};

void add_usage(TokenUsage& total, const TokenUsage& choice);
TokenUsage total_usage(const std::vector<CollectedAnswer>& answers);

}  // namespace braid::server
