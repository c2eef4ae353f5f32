// SPDX-License-Identifier: Apache-2.0
#include "server/openai/completion.h"

#include <fmt/format.h>

#include "server/api_error.h"
#include "server/fields.h"
#include "server/openai/chat_request.h"

namespace braid::server {
namespace {

constexpr int64_t kDefaultTokens = 16;  // what the API says where a request does not
constexpr size_t kMostPrompts = 256;

std::vector<int32_t> ids_of(const Service& service, const Fields& fields, const Json& list) {
  std::vector<int32_t> ids = fields.tokens_of(list, "prompt", service.model.spec.vocabulary);
  if (ids.empty()) fields.refuse("prompt", "is empty");
  return ids;
}

void add_prompt(const Service& service, const Fields& fields, const Json& prompt, Completion& out) {
  if (prompt.is_string()) {
    const auto& text = prompt.get_ref<const std::string&>();
    out.prompts.push_back(text_prompt(service.model, text));
    if (out.prompts.back().tokens.empty()) fields.refuse("prompt", "is empty");
    out.echoes.push_back(text);
  } else if (prompt.is_array()) {
    out.prompts.push_back({.tokens = ids_of(service, fields, prompt)});
    out.echoes.push_back(service.model.tokenizer ? service.model.tokenizer->decode(out.prompts.back().tokens) : "");
  } else {
    fields.refuse("prompt", fmt::format("expected texts or token ids, found {}", type_name(prompt)));
  }
}

void read_prompts(const Service& service, Fields& fields, Completion& out) {
  const Json* prompt = fields.any("prompt");
  if (prompt == nullptr) fields.refuse("prompt", "is missing");
  const bool several = prompt->is_array() && !prompt->empty() && !(*prompt)[0].is_number();
  if (!several) return add_prompt(service, fields, *prompt, out);
  if (prompt->size() > kMostPrompts) fields.refuse("prompt", fmt::format("more than {} prompts", kMostPrompts));
  for (const Json& one : *prompt) add_prompt(service, fields, one, out);
}

void refuse_suffix(Fields& fields) {
  if (fields.text("suffix").value_or("") != "")
    fields.refuse("suffix", "is not supported: text is completed at its end");
}

}  // namespace

Completion read_completion(const Service& service, const Json& body) {
  Fields fields(body);
  Completion out;
  out.model = service.read_model(fields);
  out.answer = read_answer_options(service, fields);
  const auto best_of = fields.integer("best_of", 1);
  if (best_of && *best_of != out.answer.choices) fields.refuse("best_of", "is not supported unless it equals n");
  refuse_suffix(fields);
  const bool echo = fields.flag("echo").value_or(false);
  if (const auto top = fields.integer("logprobs", 0, kMaxLogprobs)) {
    out.answer.logprobs = static_cast<int32_t>(*top);
    if (echo) out.answer.prompt_logprobs = out.answer.logprobs;
  }
  const auto most = fields.integer("max_tokens", echo ? 0 : 1);
  out.answer.max_tokens = most.value_or(service.options.max_tokens.value_or(kDefaultTokens));
  read_prompts(service, fields, out);
  if (!echo) out.echoes.clear();
  out.stream = fields.flag("stream").value_or(false);
  if (const Json* options = fields.object("stream_options"))
    out.stream_usage = Fields(*options, "stream_options").flag("include_usage").value_or(false);
  fields.log_unknown();
  return out;
}

}  // namespace braid::server
