// Reads the body of POST /v1/chat/completions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "server/chat/request.h"
#include "server/fields.h"
#include "server/service.h"

namespace braid::server {

struct ChatCompletion {
  ChatRequest chat;
  std::string model;
  bool stream = false;
  bool stream_usage = false;  // a last chunk with the usage
};

// Faults are ApiErrors that name the field.
ChatCompletion read_chat_completion(const Service& service, const Json& body);

// The request's own template, within limits that a client may be given; absent: the model's.
std::optional<ChatTemplate> read_chat_template(Fields& fields);

// Fields that chat and plain completions share: sampling, ends, choices, priority, formats. Not `logprobs`, which
// differs.
AnswerOptions read_answer_options(const Service& service, Fields& fields);

}  // namespace braid::server
