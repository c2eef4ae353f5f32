// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_template.h"

#include <cctype>
#include <new>

#include "text/template/interpreter.h"
#include "text/template/parser.h"

namespace braid {

ChatTemplate::ChatTemplate(std::string source, std::string name, TemplateOptions options)
    : source_(std::move(source)), name_(std::move(name)), options_(std::move(options)) {
  try {
    program_ = std::make_shared<const jinja::Program>(jinja::parse(source_));
  } catch (const jinja::SyntaxFault& fault) {
    throw TemplateError({TemplateFault::Syntax, name_, fault.line, fault.message});
  } catch (const jinja::Fault& fault) {
    throw TemplateError({fault.kind, name_, 1, fault.message});
  }
}

std::string ChatTemplate::render(const Json& context) const {
  jinja::Interpreter interpreter(*program_, options_);
  try {
    return interpreter.render(context);
  } catch (const jinja::Fault& fault) {
    throw TemplateError({fault.kind, name_, interpreter.line(), fault.message});
  } catch (const std::bad_alloc&) {
    throw TemplateError({TemplateFault::Limit, name_, interpreter.line(), "out of memory"});
  }
}

bool ChatTemplate::walks_content_parts() const { return program_->walks_content; }

bool ChatTemplate::mentions(std::string_view word) const {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = source_.find(word); at != std::string::npos; at = source_.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !is_part(source_[at - 1]);
    if (begins && (end == source_.size() || !is_part(source_[end]))) return true;
  }
  return false;
}

}  // namespace braid
