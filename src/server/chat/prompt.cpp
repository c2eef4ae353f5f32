// SPDX-License-Identifier: Apache-2.0
#include "server/chat/prompt.h"

#include <algorithm>

#include "base/error.h"
#include "server/api_error.h"

namespace braid::server {
namespace {

const Tokenizer& tokenizer_of(const OpenModel& model) {
  if (!model.tokenizer)
    throw ApiError(Fault::Invalid, "the model has no tokenizer: only prompts of token ids are served");
  return *model.tokenizer;
}

// What a request is rendered with.
struct Rendering {
  const OpenModel& model;
  const ChatTemplate* chat_template;  // null: there is none
};

std::string render(const Rendering& how, ChatInput input) {
  if (how.chat_template == nullptr)
    throw ApiError(Fault::Invalid, "the model has no chat template; use /v1/completions, or --chat-template");
  input.special_tokens = special_tokens(how.model);
  try {
    return render_chat(*how.chat_template, input);
  } catch (const TemplateError& error) {
    throw ApiError(Fault::Invalid, fmt::format("chat template: {}", error.what()), "messages", "template_error");
  } catch (const Error& error) {
    throw ApiError(Fault::Invalid, error.message(), "messages", "invalid_value");
  }
}

// The text of the last message, an assistant's, without the space at its end.
std::string continued_text(const Json& messages) {
  const Json& last = messages.back();
  const auto content = last.find("content");
  if (last.value("role", "") != "assistant" || content == last.end() || !content->is_string())
    throw ApiError(Fault::Invalid, "continue_final_message: the last message must be an assistant's text",
                   "continue_final_message");
  std::string text = content->get<std::string>();
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

// The rendering up to where the last message begins; what templates put after it is cut.
std::string before_continued(const Rendering& how, ChatInput input, const std::string& text) {
  input.add_generation_prompt = false;
  std::string rendered = render(how, std::move(input));
  const size_t at = text.empty() ? std::string::npos : rendered.rfind(text);
  if (at == std::string::npos)
    throw ApiError(Fault::Invalid, "continue_final_message: the chat template leaves no trace of the last message",
                   "continue_final_message");
  return rendered.substr(0, at);
}

size_t common_prefix(std::string_view left, std::string_view right) {
  return static_cast<size_t>(std::ranges::mismatch(left, right).in1 - left.begin());
}

// The common beginning of two renderings whose only user message differs: the system and tools part.
size_t system_part(const Rendering& how, const ChatInput& input, std::string_view text) {
  ChatInput probe = input;
  const auto first =
      std::ranges::find_if(input.messages, [](const Json& message) { return message.value("role", "") != "system"; });
  const size_t kept = static_cast<size_t>(first - input.messages.begin());
  if (kept == 0 && input.tools.is_null()) return 0;
  probe.messages = Json::array();
  for (size_t i = 0; i < kept; ++i) probe.messages.push_back(input.messages[i]);
  probe.messages.push_back({{"role", "user"}, {"content", "\x01"}});
  try {
    return common_prefix(text, render(how, std::move(probe)));
  } catch (const ApiError&) {
    return 0;  // a template that wants more than this has no such border
  }
}

// What stays of the rendering when an answer and a next question follow.
size_t lasting_part(const Rendering& how, const ChatInput& input, std::string_view text) {
  ChatInput next = input;
  next.messages.push_back({{"role", "assistant"}, {"content", "\x01"}});
  next.messages.push_back({{"role", "user"}, {"content", "\x01"}});
  try {
    return common_prefix(text, render(how, std::move(next)));
  } catch (const ApiError&) {
    return 0;
  }
}

// Borders in text to borders in tokens: how many tokens lie wholly before it.
std::vector<int64_t> token_borders(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                   std::vector<size_t> places) {
  std::vector<int64_t> out;
  std::ranges::sort(places);
  size_t bytes = 0, next = 0;
  for (size_t i = 0; i < tokens.size() && next < places.size(); ++i) {
    bytes += tokenizer.piece(tokens[i]).size();
    for (; next < places.size() && places[next] < bytes; ++next)
      if (i > 0 && (out.empty() || out.back() != static_cast<int64_t>(i))) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

}  // namespace

Prompt chat_prompt(const OpenModel& model, const Dialect& dialect, const ChatRequest& request) {
  const Tokenizer& tokenizer = tokenizer_of(model);
  const std::optional<ChatTemplate>& chosen = request.chat_template ? request.chat_template : model.chat_template;
  const Rendering how{model, chosen ? &*chosen : nullptr};
  const ChatInput& input = request.input;
  const std::string continued = request.continue_final ? continued_text(input.messages) : "";
  std::string text = request.continue_final ? before_continued(how, input, continued) : render(how, input);
  Prompt prompt{.start = reasoning_start(text, dialect, continued)};
  text += continued;
  prompt.tokens = tokenizer.encode(text, {.add_special_tokens = false});
  prompt.borders =
      token_borders(tokenizer, prompt.tokens, {system_part(how, input, text), lasting_part(how, input, text)});
  return prompt;
}

Prompt text_prompt(const OpenModel& model, const std::string& text) {
  return {.tokens = tokenizer_of(model).encode(text)};
}

}  // namespace braid::server
