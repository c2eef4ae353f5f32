// POST /v1/completions: what its body asks for, and the forms of its answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/chat/answer_writer.h"
#include "server/chat/prompt.h"
#include "server/chat/request.h"
#include "server/service.h"

namespace braid::server {

struct Completion {
  AnswerOptions answer;
  std::vector<Prompt> prompts;
  std::vector<std::string> echoes;  // what stands before each prompt's answers; none: nothing does
  std::string model;
  bool stream = false;
  bool stream_usage = false;
};

// Faults are ApiErrors that name the field.
Completion read_completion(const Service& service, const Json& body);

// One object, or chunks of a stream.
std::unique_ptr<AnswerWriter> completion_writer(const Service& service, const Completion& completion);

}  // namespace braid::server
