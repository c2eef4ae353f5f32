// From messages to the tokens of a prompt, and where in it a cache may keep state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/model.h"
#include "server/chat/request.h"
#include "text/dialects/dialect.h"

namespace braid::server {

struct Prompt {
  std::vector<int32_t> tokens;
  // Lengths that other prompts are likely to share, ascending: the system and tools part, and what the next turn's
  // rendering begins with.
  std::vector<int64_t> borders;
  ReasoningStart start = ReasoningStart::Answering;
};

// Faults are ApiErrors (Invalid): no template, one that fails or refuses the messages, parts that are no text.
Prompt chat_prompt(const OpenModel& model, const Dialect& dialect, const ChatRequest& request);

// The prompt of a text that is completed as it is.
Prompt text_prompt(const OpenModel& model, const std::string& text);

}  // namespace braid::server
