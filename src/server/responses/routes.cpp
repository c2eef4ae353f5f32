// The routes of the responses API.
// SPDX-License-Identifier: Apache-2.0
#include "server/routes.h"

#include <fmt/format.h>

#include <ctime>

#include "server/chat/answer_run.h"
#include "server/openai/error.h"
#include "server/responses/response_request.h"
#include "server/responses/response_writer.h"

namespace braid::server {
namespace {

using Store = std::shared_ptr<ResponseStore>;

void create(Service& service, const Store& store, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  ResponseRequest asked = read_response_request(service, *store, body);
  const Prompt prompt = chat_prompt(service.model, service.dialect, asked.chat);
  ResponseForm form{.id = fresh_id("resp_"),
                    .created = std::time(nullptr),
                    .echo = std::move(asked.echo),
                    .streamed = asked.stream,
                    .summary = asked.summary,
                    .scores = asked.chat.answer.logprobs.has_value(),
                    .tokenizer = service.model.tokenizer ? &*service.model.tokenizer : nullptr};
  if (asked.store)
    form.keep = [store, input = std::move(asked.input), parent = std::move(asked.parent)](const Json& response,
                                                                                          Json answer) {
      Json messages = input.messages;
      for (Json& message : answer) messages.push_back(std::move(message));
      store->add({response.at("id").get<std::string>(), response, input.items, std::move(messages), parent});
    };
  run_answer(service, call,
             {.jobs = chat_jobs(service, asked.chat, prompt),
              .writer = response_writer(std::move(form)),
              .streamed = asked.stream});
}

[[noreturn]] void refuse_unknown(const std::string& id) {
  throw ApiError(Fault::NotFound, fmt::format("there is no response '{}' here", id), "", "not_found");
}

void retrieve(const Store& store, const std::shared_ptr<Call>& call, const std::string& rest) {
  constexpr std::string_view kItems = "/input_items";
  if (!rest.ends_with(kItems)) {
    const auto response = store->response(rest);
    if (!response) refuse_unknown(rest);
    return call->respond(HttpResponse{.body = dump(*response)});
  }
  const std::string id = rest.substr(0, rest.size() - kItems.size());
  const auto items = store->items(id);
  if (!items) refuse_unknown(id);
  const bool any = !items->empty();
  call->respond(HttpResponse{.body = dump({{"object", "list"},
                                           {"data", *items},
                                           {"first_id", any ? items->front().at("id") : Json()},
                                           {"last_id", any ? items->back().at("id") : Json()},
                                           {"has_more", false}})});
}

}  // namespace

void add_responses_routes(Router& router, Service& service) {
  const auto store = std::make_shared<ResponseStore>();
  const auto add = [&](const char* method, const char* path, RouteHandler handler) {
    router.add({.method = method, .path = path, .handler = std::move(handler), .form = openai_error});
  };
  add("POST", "/v1/responses",
      [&service, store](const auto& call, const std::string&) { create(service, store, call); });
  add("GET", "/v1/responses/", [store](const auto& call, const std::string& rest) { retrieve(store, call, rest); });
  add("DELETE", "/v1/responses/", [store](const auto& call, const std::string& id) {
    if (!store->erase(id)) refuse_unknown(id);
    call->respond(HttpResponse{.body = dump({{"id", id}, {"object", "response"}, {"deleted", true}})});
  });
}

}  // namespace braid::server
