// What a request asks for, whatever the API that it came through.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/template/chat_context.h"

namespace braid::server {

// What the answer is held to. `value`: a schema, the text of a regular expression or grammar, a list of texts, or a
// structural tag (text/grammar/structure_format.h).
struct AnswerFormat {
  enum class Kind : uint8_t { Text, Json, Schema, Regex, Choice, Grammar, Tags };
  Kind kind = Kind::Text;
  Json value;
  std::string field;  // of the request, for what is wrong with it
};

// How the answer is drawn, where it ends, and what is told of it.
struct AnswerOptions {
  Sampling sampling;
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_tokens;
  bool ignore_end = false;
  bool include_stop = false;  // the stop string or token is part of the answer
  bool skip_special = true;
  std::optional<int32_t> logprobs;         // how many beside the drawn token's own
  std::optional<int32_t> prompt_logprobs;  // the same of the prompt's tokens
  int32_t choices = 1;
  int32_t priority = 0;  // lower runs sooner
  bool use_cache = true;
  AnswerFormat format;
};

struct ToolChoice {
  enum class Kind : uint8_t { Auto, None, Required, Named };
  Kind kind = Kind::Auto;
  std::string name;  // of Named
};

// `input` is in the template's form: roles system, user, assistant and tool; content a string or text parts; tools as
// {"type": "function", "function": {...}}.
struct ChatRequest {
  ChatInput input;
  std::optional<ChatTemplate> chat_template;  // absent: the model's
  bool continue_final = false;  // the answer goes on where the last message, an assistant's, ends
  ToolChoice tool_choice;
  bool parallel_calls = true;
  std::optional<int64_t> thinking_budget;  // tokens of reasoning, then it is closed
  AnswerOptions answer;
};

}  // namespace braid::server
