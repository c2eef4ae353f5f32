// Fuzzing of the chat template interpreter: the input is a template's source, the conversation is fixed.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "text/template/chat_template.h"

namespace {

const braid::Json& conversation() {
  static const braid::Json context = braid::Json::parse(R"({
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "é 😀\n x"},
                 {"role": "assistant", "content": null,
                  "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]},
                 {"role": "tool", "content": "{\"a\": 1}"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "a": 1, "s": "text", "l": [3, 1, 2], "d": {"x": 1, "y": {"z": 2}}, "add_generation_prompt": true})");
  return context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const braid::TemplateOptions options{.limits = {.output_bytes = 1 << 20, .steps = 20'000, .built_bytes = 16 << 20}};
  try {
    const braid::ChatTemplate chat_template(std::string(reinterpret_cast<const char*>(data), size), "fuzz", options);
    chat_template.render(conversation());
  } catch (const braid::TemplateError&) {
    // Anything but an error of the template is a finding.
  }
  return 0;
}
