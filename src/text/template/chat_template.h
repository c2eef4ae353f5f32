// ChatTemplate: a chat template (Jinja, as Hugging Face tokenizers carry it) that turns messages into a prompt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "text/template/limits.h"
#include "text/template/template_error.h"

namespace braid {

namespace jinja {
struct Program;
}

// Immutable once made; render() may run in several threads at once, each with 1 MiB of stack or more. Copies share the
// parsed program.
//
// The language is Jinja 2 as transformers sets it up for chat templates: trim_blocks, lstrip_blocks, break and
// continue,
// {% generation %}, raise_exception, strftime_now, and tojson as plain json.dumps. Templates stand alone (no include,
// import or extends), and cannot change lists and dicts.
class ChatTemplate {
 public:
  // Parses `source`; `name` is for messages. Throws TemplateError (Syntax).
  explicit ChatTemplate(std::string source, std::string name, TemplateOptions options = {});

  // Renders with the keys of `context` (an object) as variables. Throws TemplateError.
  std::string render(const Json& context) const;

  // Whether the template names this variable, attribute or key anywhere: "enable_thinking", "tools",
  // "reasoning_content".
  bool mentions(std::string_view word) const;

  // Whether the template has a loop over a message's content, so that lists of content parts can be given to it.
  bool walks_content_parts() const;

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::string name_;
  TemplateOptions options_;
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace braid
