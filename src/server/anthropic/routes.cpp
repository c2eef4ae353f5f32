// The routes of the messages API.
// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

#include "server/anthropic/error.h"
#include "server/anthropic/messages_request.h"
#include "server/anthropic/messages_writer.h"
#include "server/chat/answer_run.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

void messages(Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  const MessagesRequest asked = read_messages_request(service, body, false);
  const Prompt prompt = chat_prompt(service.model, service.dialect, asked.chat);
  MessageForm form{.id = fresh_id("msg_"), .model = asked.model, .prompt_tokens = std::ssize(prompt.tokens)};
  auto writer = asked.stream ? message_stream_writer(std::move(form)) : message_object_writer(std::move(form));
  run_answer(service, call,
             {.jobs = chat_jobs(service, asked.chat, prompt), .writer = std::move(writer), .streamed = asked.stream});
}

void count_tokens(const Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  const MessagesRequest asked = read_messages_request(service, body, true);
  const Prompt prompt = chat_prompt(service.model, service.dialect, asked.chat);
  call->respond(HttpResponse{.body = dump({{"input_tokens", prompt.tokens.size()}})});
}

}  // namespace

void add_anthropic_routes(Router& router, Service& service) {
  const auto add = [&](const char* path, RouteHandler handler) {
    router.add({.method = "POST", .path = path, .handler = std::move(handler), .form = anthropic_error});
  };
  add("/v1/messages", [&service](const auto& call, const std::string&) { messages(service, call); });
  add("/v1/messages/count_tokens", [&service](const auto& call, const std::string&) { count_tokens(service, call); });
}

}  // namespace braid::server
