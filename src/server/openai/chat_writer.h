// The forms of a chat completion: one object, or chunks of a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/chat/answer_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace braid::server {

struct ChatForm {
  std::string id, model;
  int64_t created = 0;
  int choices = 1;
  bool stream_usage = false;
  bool scores = false;
  const Tokenizer* tokenizer = nullptr;  // for the texts of scores
  std::vector<int32_t> prompt_tokens;    // where their scores are told
};

std::unique_ptr<AnswerWriter> chat_object_writer(ChatForm form);
std::unique_ptr<AnswerWriter> chat_stream_writer(ChatForm form);

Json openai_usage(const TokenUsage& usage);
// {"token", "logprob", "bytes"} and the likeliest beside it.
Json openai_scores(const Tokenizer* tokenizer, const TokenScores& scores);
// A list with null for the first token, and for each other one the scores of it and of likely ones by id.
Json openai_prompt_scores(const Tokenizer* tokenizer, std::span<const int32_t> tokens,
                          const std::vector<PromptLogprob>& scores);

}  // namespace braid::server
