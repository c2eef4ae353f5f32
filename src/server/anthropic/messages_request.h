// Reads the body of POST /v1/messages, and of its count of tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/chat/request.h"
#include "server/fields.h"
#include "server/service.h"

namespace braid::server {

struct MessagesRequest {
  ChatRequest chat;
  std::string model;
  bool stream = false;
};

// Faults are ApiErrors that name the field. `counted`: only the tokens of the prompt are asked for, so that max_tokens
// may be absent. Without `thinking` the template is told not to think, unless the operator's default says otherwise. A
// last message of the assistant is continued.
MessagesRequest read_messages_request(const Service& service, const Json& body, bool counted);

}  // namespace braid::server
