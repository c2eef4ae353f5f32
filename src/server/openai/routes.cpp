// The routes of the chat, completions and models APIs.
// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

#include <ctime>

#include "server/chat/answer_run.h"
#include "server/openai/chat_request.h"
#include "server/openai/chat_writer.h"
#include "server/openai/completion.h"
#include "server/openai/error.h"

namespace braid::server {
namespace {

void chat_completion(Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  const ChatCompletion asked = read_chat_completion(service, body);
  const Prompt prompt = chat_prompt(service.model, service.dialect, asked.chat);
  ChatForm form{.id = fresh_id("chatcmpl-"),
                .model = asked.model,
                .created = std::time(nullptr),
                .choices = asked.chat.answer.choices,
                .stream_usage = asked.stream_usage,
                .scores = asked.chat.answer.logprobs.has_value(),
                .tokenizer = service.model.tokenizer ? &*service.model.tokenizer : nullptr};
  if (asked.chat.answer.prompt_logprobs) form.prompt_tokens = prompt.tokens;
  auto writer = asked.stream ? chat_stream_writer(std::move(form)) : chat_object_writer(std::move(form));
  run_answer(service, call,
             {.jobs = chat_jobs(service, asked.chat, prompt), .writer = std::move(writer), .streamed = asked.stream});
}

void completion(Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  const Completion asked = read_completion(service, body);
  run_answer(service, call,
             {.jobs = text_jobs(service, asked.answer, asked.prompts),
              .writer = completion_writer(service, asked),
              .streamed = asked.stream});
}

Json model_json(const Service& service, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", static_cast<int64_t>(service.started)},
          {"owned_by", "braid"},
          {"max_model_len", service.model.context}};
}

void list_models(const Service& service, const std::shared_ptr<Call>& call) {
  Json data = Json::array();
  for (const std::string& name : service.options.names) data.push_back(model_json(service, name));
  call->respond(HttpResponse{.body = dump({{"object", "list"}, {"data", std::move(data)}})});
}

}  // namespace

void add_openai_routes(Router& router, Service& service) {
  const auto add = [&](const char* method, const char* path, RouteHandler handler) {
    router.add({.method = method, .path = path, .handler = std::move(handler), .form = openai_error});
  };
  add("POST", "/v1/chat/completions",
      [&service](const auto& call, const std::string&) { chat_completion(service, call); });
  add("POST", "/v1/completions", [&service](const auto& call, const std::string&) { completion(service, call); });
  add("GET", "/v1/models", [&service](const auto& call, const std::string&) { list_models(service, call); });
  add("GET", "/v1/models/", [&service](const auto& call, const std::string& name) {
    service.check_model(name);
    call->respond(HttpResponse{.body = dump(model_json(service, name))});
  });
  add("POST", "/v1/embeddings", [](const auto&, const std::string&) {
    throw ApiError(Fault::Invalid, "embeddings are not supported: this server generates text", "", "unsupported");
  });
}

}  // namespace braid::server
