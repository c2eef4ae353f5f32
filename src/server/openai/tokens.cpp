// POST /tokenize and /detokenize.
// SPDX-License-Identifier: Apache-2.0
#include "server/chat/messages.h"
#include "server/chat/prompt.h"
#include "server/fields.h"
#include "server/openai/chat_request.h"
#include "server/openai/error.h"
#include "server/routes.h"

namespace braid::server {
namespace {

const Tokenizer& tokenizer_of(const Service& service) {
  if (!service.model.tokenizer) throw ApiError(Fault::Invalid, "the model has no tokenizer");
  return *service.model.tokenizer;
}

std::vector<int32_t> tokens_of_chat(const Service& service, Fields& fields, const Json& messages) {
  ChatRequest chat;
  chat.input.messages = normal_messages(messages);
  if (const Json* tools = fields.list("tools")) chat.input.tools = normal_tools(*tools);
  chat.chat_template = read_chat_template(fields);
  if (const Json* variables = fields.object("chat_template_kwargs")) chat.input.variables = *variables;
  chat.continue_final = fields.flag("continue_final_message").value_or(false);
  chat.input.add_generation_prompt = fields.flag("add_generation_prompt").value_or(!chat.continue_final);
  return chat_prompt(service.model, service.dialect, chat).tokens;
}

void tokenize(const Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  Fields fields(body);
  const Tokenizer& tokenizer = tokenizer_of(service);
  if (const auto model = fields.text("model")) service.check_model(*model);
  const Json* messages = fields.list("messages");
  const auto prompt = fields.text("prompt");
  if ((messages == nullptr) == !prompt) fields.refuse("prompt", "expected either prompt or messages");
  const std::vector<int32_t> tokens =
      messages != nullptr
          ? tokens_of_chat(service, fields, *messages)
          : tokenizer.encode(*prompt, {.add_special_tokens = fields.flag("add_special_tokens").value_or(true)});
  Json out = {{"count", tokens.size()}, {"max_model_len", service.model.context}, {"tokens", tokens}};
  if (fields.flag("return_token_strs").value_or(false)) {
    Json& texts = out["token_strs"] = Json::array();
    for (const int32_t token : tokens) texts.push_back(std::string(tokenizer.piece(token)));
  }
  fields.log_unknown();
  call->respond(HttpResponse{.body = dump(out)});
}

void detokenize(const Service& service, const std::shared_ptr<Call>& call) {
  const Json body = json_body(*call);
  Fields fields(body);
  if (const auto model = fields.text("model")) service.check_model(*model);
  if (fields.any("tokens") == nullptr) fields.refuse("tokens", "is missing");
  const std::vector<int32_t> tokens = fields.tokens("tokens", service.model.spec.vocabulary);
  const bool skip = fields.flag("skip_special_tokens").value_or(false);
  fields.log_unknown();
  call->respond(HttpResponse{.body = dump({{"prompt", tokenizer_of(service).decode(tokens, skip)}})});
}

}  // namespace

void add_token_routes(Router& router, Service& service) {
  router.add({.method = "POST",
              .path = "/tokenize",
              .handler = [&service](const auto& call, const std::string&) { tokenize(service, call); },
              .form = openai_error});
  router.add({.method = "POST",
              .path = "/detokenize",
              .handler = [&service](const auto& call, const std::string&) { detokenize(service, call); },
              .form = openai_error});
}

}  // namespace braid::server
