// AnswerWriter: what an API has to say to turn the pieces of an answer into its own form. The rest is shared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "server/api_error.h"
#include "server/chat/answer.h"
#include "server/http/message.h"

namespace braid::server {

// Calls come one at a time, in this order: begin, write for each piece, and end once every choice has had its
// ChoiceEnd, or `fail` instead of it. What is appended to `out` is sent as it is: events of a stream, or the body.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual void begin(std::string& out) = 0;
  virtual void write(const ChoicePiece& piece, std::string& out) = 0;
  virtual void end(std::string& out) = 0;
  // A fault after the answer began: an event, in a stream.
  virtual void fail(const ApiError& error, std::string& out) = 0;
};

// "data: <json>\n\n", with an event name before it where one is given.
void append_event(std::string& out, std::string_view data, std::string_view event = {});

}  // namespace braid::server
