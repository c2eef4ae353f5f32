// SPDX-License-Identifier: Apache-2.0
#include "server/openai/chat_request.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "server/api_error.h"
#include "server/chat/messages.h"

namespace braid::server {
namespace {

constexpr int64_t kMostChoices = 128;

constexpr double kLargestBias = 1e6;  // more than any difference of logits: such a token is drawn, or never

void read_logit_bias(Fields& fields, const Service& service, Sampling& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [name, value] : biases->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0 || token >= service.model.spec.vocabulary)
      fields.refuse("logit_bias", fmt::format("'{}' is no token id", name));
    if (!value.is_number()) fields.refuse("logit_bias", fmt::format("expected numbers, found {}", type_name(value)));
    const auto bias = value.get<double>();
    if (std::abs(bias) > kLargestBias)
      fields.refuse("logit_bias", fmt::format("expected numbers up to {}, found {}", kLargestBias, bias));
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
}

Sampling read_sampling(const Service& service, Fields& fields) {
  Sampling out = service.sampling();
  constexpr double kLargest = 1e6;
  const auto set = [](float& field, const std::optional<double>& value) {
    if (value) field = static_cast<float>(*value);
  };
  set(out.temperature, fields.number("temperature", 0, 100));
  set(out.top_p, fields.number("top_p", 0, 1));
  set(out.min_p, fields.number("min_p", 0, 1));
  set(out.penalties.frequency, fields.number("frequency_penalty", -100, 100));
  set(out.penalties.presence, fields.number("presence_penalty", -100, 100));
  set(out.penalties.repetition, fields.number("repetition_penalty", 1e-3, kLargest));
  // -1 means off as well.
  if (const auto top_k = fields.integer("top_k", -1, INT32_MAX))
    out.top_k = static_cast<int32_t>(std::max(*top_k, int64_t{0}));
  if (const auto seed = fields.integer("seed")) out.seed = static_cast<uint64_t>(*seed);
  read_logit_bias(fields, service, out);
  return out;
}

std::optional<AnswerFormat> response_format(Fields& fields) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return std::nullopt;
  Fields inner(*format, "response_format");
  const auto type = inner.text("type");
  if (!type) inner.refuse("type", "is missing");
  if (*type == "text") return std::nullopt;
  if (*type == "json_object") return AnswerFormat{AnswerFormat::Kind::Json, {}, "response_format"};
  if (*type == "structural_tag") return AnswerFormat{AnswerFormat::Kind::Tags, *format, "response_format"};
  if (*type != "json_schema")
    inner.refuse("type", fmt::format("'{}' is none of text, json_object and json_schema", *type));
  const Json* holder = inner.object("json_schema");
  if (holder == nullptr) inner.refuse("json_schema", "is missing");
  Fields schema(*holder, "response_format.json_schema");
  const Json* found = schema.any("schema");
  if (found == nullptr) schema.refuse("schema", "is missing");
  return AnswerFormat{AnswerFormat::Kind::Schema, *found, schema.place_of("schema")};
}

Json parsed(const Fields& fields, const std::string& name, const Json& text) {
  try {
    return parse_json(text.get<std::string>(), "the text");
  } catch (const Error& error) {
    fields.refuse(name, error.message());
  }
}

// `prefix`: of the older names, "guided_"; none within structured_outputs.
std::optional<AnswerFormat> structured(Fields& fields, const std::string& prefix) {
  std::vector<AnswerFormat> found;
  const auto add = [&](AnswerFormat::Kind kind, const char* name, Json value) {
    found.push_back({kind, std::move(value), fields.place_of(prefix + name)});
  };
  if (const Json* schema = fields.any(prefix + "json"))
    add(AnswerFormat::Kind::Schema, "json", schema->is_string() ? parsed(fields, prefix + "json", *schema) : *schema);
  if (const auto text = fields.text(prefix + "regex")) add(AnswerFormat::Kind::Regex, "regex", *text);
  if (const auto text = fields.text(prefix + "grammar")) add(AnswerFormat::Kind::Grammar, "grammar", *text);
  if (fields.any(prefix + "choice") != nullptr) {
    const std::vector<std::string> texts = fields.texts(prefix + "choice");
    if (texts.empty()) fields.refuse(prefix + "choice", "expected at least one text");
    add(AnswerFormat::Kind::Choice, "choice", texts);
  }
  if (fields.flag(prefix + "json_object").value_or(false)) add(AnswerFormat::Kind::Json, "json_object", {});
  if (found.size() > 1)
    throw ApiError(Fault::Invalid, fmt::format("{}: only one of the structured forms can be asked for", found[1].field),
                   found[1].field, "invalid_value");
  return found.empty() ? std::nullopt : std::optional(found[0]);
}

AnswerFormat read_format(Fields& fields) {
  if (const auto format = response_format(fields)) return *format;
  if (const Json* outputs = fields.object("structured_outputs")) {
    Fields inner(*outputs, "structured_outputs");
    const auto format = structured(inner, "");
    inner.log_unknown();
    if (format) return *format;
  }
  return structured(fields, "guided_").value_or(AnswerFormat{});
}

ToolChoice read_tool_choice(Fields& fields, const Json& tools) {
  const Json* choice = fields.any("tool_choice");
  if (choice == nullptr) return {};
  using Kind = ToolChoice::Kind;
  if (choice->is_string()) {
    const auto& word = choice->get_ref<const std::string&>();
    if (word == "auto") return {};
    if (word == "none") return {Kind::None, ""};
    if (word != "required") fields.refuse("tool_choice", fmt::format("'{}' is none of auto, none and required", word));
    if (tools.is_null()) fields.refuse("tool_choice", "'required', and there are no tools");
    return {Kind::Required, ""};
  }
  Fields inner(*choice, "tool_choice");
  const Json* function = inner.object("function");
  if (function == nullptr) inner.refuse("function", "is missing");
  const auto name = Fields(*function, "tool_choice.function").text("name");
  if (!name) inner.refuse("function.name", "is missing");
  for (const Json& tool : tools)
    if (tool["function"]["name"] == *name) return {Kind::Named, *name};
  inner.refuse("function.name", fmt::format("there is no tool '{}'", *name));
}

void read_template_variables(const Service& service, Fields& fields, ChatRequest& chat) {
  Json& variables = chat.input.variables;
  if (service.options.think) variables["enable_thinking"] = *service.options.think;
  chat.chat_template = read_chat_template(fields);
  if (const auto effort = fields.text("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (*effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* given = fields.object("chat_template_kwargs"))
    for (const auto& [name, value] : given->items()) variables[name] = value;
  if (const Json* documents = fields.list("documents")) chat.input.documents = *documents;
}

void read_logprobs(Fields& fields, AnswerOptions& answer) {
  const bool wanted = fields.flag("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !wanted) fields.refuse("top_logprobs", "needs logprobs to be true");
  if (wanted) answer.logprobs = static_cast<int32_t>(top.value_or(0));
}

void read_stream(Fields& fields, ChatCompletion& out) {
  out.stream = fields.flag("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) fields.refuse("stream_options", "is only allowed where stream is true");
  Fields inner(*options, "stream_options");
  out.stream_usage = inner.flag("include_usage").value_or(false);
}

}  // namespace

AnswerOptions read_answer_options(const Service& service, Fields& fields) {
  AnswerOptions out{.sampling = read_sampling(service, fields)};
  out.min_tokens = fields.integer("min_tokens", 0).value_or(0);
  out.stop = fields.texts("stop");
  out.stop_tokens = fields.tokens("stop_token_ids", service.model.spec.vocabulary);
  out.ignore_end = fields.flag("ignore_eos").value_or(false);
  out.include_stop = fields.flag("include_stop_str_in_output").value_or(false);
  out.skip_special = fields.flag("skip_special_tokens").value_or(true);
  out.choices = static_cast<int32_t>(fields.integer("n", 1, kMostChoices).value_or(1));
  out.priority = static_cast<int32_t>(fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  if (const auto top = fields.integer("prompt_logprobs", 0, kMaxLogprobs))
    out.prompt_logprobs = static_cast<int32_t>(*top);
  out.format = read_format(fields);
  return out;
}

std::optional<ChatTemplate> read_chat_template(Fields& fields) {
  const auto source = fields.text("chat_template");
  if (!source) return std::nullopt;
  try {
    return ChatTemplate(*source, "chat_template",
                        {.limits = {.output_bytes = 8 << 20, .steps = 1'000'000, .built_bytes = 64 << 20}});
  } catch (const TemplateError& error) {
    fields.refuse("chat_template", error.what());
  }
}

ChatCompletion read_chat_completion(const Service& service, const Json& body) {
  Fields fields(body);
  ChatCompletion out;
  out.model = service.read_model(fields);
  const Json& messages = fields.required_list("messages");
  ChatRequest& chat = out.chat;
  chat.input.messages = normal_messages(messages);
  if (const Json* tools = fields.list("tools")) chat.input.tools = normal_tools(*tools);
  chat.tool_choice = read_tool_choice(fields, chat.input.tools);
  if (chat.tool_choice.kind == ToolChoice::Kind::None) chat.input.tools = Json();
  chat.parallel_calls = fields.flag("parallel_tool_calls").value_or(true);
  read_template_variables(service, fields, chat);
  chat.continue_final = fields.flag("continue_final_message").value_or(false);
  const auto generation = fields.flag("add_generation_prompt");
  if (chat.continue_final && generation.value_or(false))
    fields.refuse("continue_final_message", "cannot be together with add_generation_prompt");
  chat.input.add_generation_prompt = generation.value_or(!chat.continue_final);
  chat.thinking_budget = fields.integer("thinking_budget", 0);
  chat.answer = read_answer_options(service, fields);
  read_logprobs(fields, chat.answer);
  const auto most = fields.integer("max_tokens", 1);
  const auto most_completion = fields.integer("max_completion_tokens", 1);
  chat.answer.max_tokens = most_completion ? most_completion : most ? most : service.options.max_tokens;
  read_stream(fields, out);
  fields.log_unknown();
  return out;
}

}  // namespace braid::server
