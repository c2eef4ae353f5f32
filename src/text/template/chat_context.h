// The variables of a chat template, made from the parts of a chat request as transformers' apply_chat_template does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "text/template/chat_template.h"

namespace braid {

struct ChatInput {
  Json messages = Json::array();
  Json tools;      // a list, or null for none
  Json documents;  // a list, or null for none
  bool add_generation_prompt = true;
  Json special_tokens = Json::object();  // bos_token, eos_token ... as strings
  Json variables = Json::object();       // enable_thinking, reasoning_effort ...; these win over all of the above
};

struct ChatContextOptions {
  // Tool-call arguments that are a string holding a JSON object become that object (an empty string becomes {}), which
  // is what templates walk over; other strings stay. Off: as the caller gave them.
  bool parse_tool_arguments = true;
  // A message without content, or with null, gets "", so that templates may join it to text; but an assistant's message
  // with tool calls gets null, which is how templates recognise a message that is nothing but calls.
  bool fill_missing_content = true;
  // A list of text parts becomes one string, joined by newlines; a list with any other part stays.
  bool join_text_parts = false;

  // Joins parts where the template has no loop over them.
  static ChatContextOptions suited_to(const ChatTemplate& chat_template) {
    return {.join_text_parts = !chat_template.walks_content_parts()};
  }
};

// An object with messages, tools, documents, add_generation_prompt, the special tokens and the variables. A part that
// is not of the type above is an Input error that names it.
Json make_chat_context(const ChatInput& input, const ChatContextOptions& options);

// The whole way: check_conversation, context as suits the template, then the prompt. Throws TemplateError or an Input
// error.
std::string render_chat(const ChatTemplate& chat_template, const ChatInput& input);

}  // namespace braid
