// TemplateError: a fault of a chat template, with the template's name, the line and the cause.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"

namespace braid {

// Syntax: the source cannot be read. Runtime: an expression failed. Raised: the template called raise_exception.
// Limit: the template wanted more output, steps, memory or recursion than allowed.
enum class TemplateFault { Syntax, Runtime, Raised, Limit };

// An Input error. message() is "template NAME, line N: CAUSE"; a Raised one is meant for whoever wrote the messages,
// and cause() is then exactly the text that the template gave.
class TemplateError : public Error {
 public:
  struct Parts {
    TemplateFault fault;
    std::string name;
    int line;
    std::string cause;
  };

  explicit TemplateError(Parts parts)
      : Error(ErrorKind::Input, fmt::format("template {}, line {}: {}", parts.name, parts.line, parts.cause)),
        parts_(std::move(parts)) {}

  TemplateFault fault() const { return parts_.fault; }
  int line() const { return parts_.line; }
  const std::string& cause() const { return parts_.cause; }

 private:
  Parts parts_;
};

}  // namespace braid
