// SPDX-License-Identifier: Apache-2.0
#include "server/chat/answer.h"

namespace braid::server {
namespace {

struct Collector {
  CollectedAnswer& answer;

  void operator()(const PromptScores& piece) const { answer.prompt_scores = piece.tokens; }
  void operator()(const ReasoningText& piece) const { answer.reasoning += piece.text; }
  void operator()(const ContentText& piece) const {
    answer.content += piece.text;
    answer.scores.insert(answer.scores.end(), piece.scores.begin(), piece.scores.end());
  }
  void operator()(const ToolBegin& piece) const { answer.calls.push_back({.id = piece.id, .name = piece.name}); }
  void operator()(const ToolArguments& piece) const { answer.calls.back().arguments += piece.text; }
  void operator()(const ToolEnd&) const {}
  void operator()(const ChoiceEnd& piece) const { answer.end = piece; }
};

}  // namespace

void CollectedAnswer::add(const ChoicePiece& piece) { std::visit(Collector{*this}, piece.what); }

void add_usage(TokenUsage& total, const TokenUsage& choice) {
  total.prompt += choice.prompt;
  total.cached += choice.cached;
  total.completion += choice.completion;
  total.reasoning += choice.reasoning;
  if (choice.prompt > 0) total.limit = choice.limit;
}

TokenUsage total_usage(const std::vector<CollectedAnswer>& answers) {
  TokenUsage total;
  for (const CollectedAnswer& answer : answers) add_usage(total, answer.end.usage);
  return total;
}

}  // namespace braid::server
