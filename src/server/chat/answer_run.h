// Runs a request: its choices through the engine, their pieces through a writer, and what that writes to the client.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "server/call.h"
#include "server/chat/answer_reader.h"
#include "server/chat/answer_writer.h"
#include "server/chat/prompt.h"
#include "server/chat/request.h"
#include "server/service.h"

namespace braid::server {

// One choice to be computed.
struct AnswerJob {
  Request request;  // without on_event
  AnswerReader::Options reader;
};

// The jobs of a chat, one for each choice. Faults are ApiErrors.
std::vector<AnswerJob> chat_jobs(const Service& service, const ChatRequest& request, const Prompt& prompt);
// The same of texts that are completed: the choices of the first, then those of the second ...
std::vector<AnswerJob> text_jobs(const Service& service, const AnswerOptions& options, std::span<const Prompt> prompts);

// How a call is answered: as a stream of events, or with one body when all choices have ended.
struct AnswerPlan {
  std::vector<AnswerJob> jobs;
  std::unique_ptr<AnswerWriter> writer;
  bool streamed = false;
};

// Submits the jobs and answers the call. A client that goes away cancels them. An ApiError (Busy, Invalid) when they
// cannot be taken; then the call is still to be answered.
void run_answer(Service& service, const std::shared_ptr<Call>& call, AnswerPlan plan);

}  // namespace braid::server
