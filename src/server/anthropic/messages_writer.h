// The forms of an answer in the messages API: one object, or the events of a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/chat/answer_writer.h"

namespace braid::server {

struct MessageForm {
  std::string id, model;
  int64_t prompt_tokens = 0;  // what a stream says at its start, when it is not known yet how much the cache held
};

std::unique_ptr<AnswerWriter> message_object_writer(MessageForm form);
std::unique_ptr<AnswerWriter> message_stream_writer(MessageForm form);

}  // namespace braid::server
