// The forms of an answer in the responses API: one object, or the numbered events of a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/chat/answer_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace braid::server {

struct ResponseForm {
  std::string id;
  int64_t created = 0;
  Json echo;  // as of ResponseRequest
  bool streamed = false;
  bool summary = false;  // thoughts are given as a summary
  bool scores = false;
  const Tokenizer* tokenizer = nullptr;  // for the texts of scores
  // Gets the response, and the answer as messages in the template's form, when the answer is whole.
  std::function<void(const Json& response, Json messages)> keep;
};

std::unique_ptr<AnswerWriter> response_writer(ResponseForm form);

}  // namespace braid::server
