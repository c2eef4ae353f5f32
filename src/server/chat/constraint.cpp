// SPDX-License-Identifier: Apache-2.0
#include "server/chat/constraint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "server/api_error.h"
#include "text/dialects/call_format.h"
#include "text/dialects/reasoning_constraint.h"
#include "text/grammar/grammar_constraint.h"
#include "text/grammar/structure.h"

namespace braid::server {
namespace {

std::unique_ptr<TokenConstraint> compiled(const Service& service, const Structure& structure,
                                          const std::string& field) {
  if (!service.grammars) throw ApiError(Fault::Invalid, fmt::format("{}: the model has no tokenizer", field), field);
  try {
    return make_constraint(service.grammars->get(structure));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
    throw ApiError(Fault::Invalid, fmt::format("{}: {}", field, error.message()), field, "unsupported_value");
  }
}

Structure structure_of(const AnswerFormat& format) {
  switch (format.kind) {
    case AnswerFormat::Kind::Schema:
      return {.kind = StructureKind::Json, .value = format.value};
    case AnswerFormat::Kind::Regex:
      return {.kind = StructureKind::Regex, .value = format.value};
    case AnswerFormat::Kind::Choice:
      return {.kind = StructureKind::Choice, .value = format.value};
    case AnswerFormat::Kind::Grammar:
      return {.kind = StructureKind::Grammar, .value = format.value};
    case AnswerFormat::Kind::Tags:
      return {.kind = StructureKind::Format, .value = format.value};
    default:
      return {.kind = StructureKind::JsonObject};
  }
}

bool is_strict(const Json& tool) { return tool.at("function").value("strict", Json()) == Json(true); }

// What the calls of a request have to be; null where they are free.
Json calls_format(const Service& service, const ChatRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  if (request.input.tools.is_null() || choice.kind == Kind::None) return {};
  const bool free = choice.kind == Kind::Auto;
  if (free && request.parallel_calls && std::ranges::none_of(request.input.tools, is_strict)) return {};
  if (service.dialect.tools == ToolForm::None) {
    if (free) return {};
    throw ApiError(Fault::Invalid, "tool_choice: the model's chat template has no form for calls", "tool_choice");
  }
  return call_format(service.dialect.tools, request.input.tools,
                     {.name = choice.name, .required = !free, .parallel = request.parallel_calls});
}

std::unique_ptr<TokenConstraint> answer_constraint(const Service& service, const ChatRequest& request) {
  Json calls = calls_format(service, request);
  if (calls.is_null()) return text_constraint(service, request.answer.format);
  return compiled(service, {.kind = StructureKind::Format, .value = std::move(calls)}, "tools");
}

}  // namespace

std::unique_ptr<TokenConstraint> text_constraint(const Service& service, const AnswerFormat& format) {
  if (format.kind == AnswerFormat::Kind::Text) return nullptr;
  return compiled(service, structure_of(format), format.field);
}

// A structural tag may say how calls are written, and so do tools that are held to their schemas.
bool held_to_format(const Service& service, const ChatRequest& request) {
  const AnswerFormat::Kind kind = request.answer.format.kind;
  if (kind == AnswerFormat::Kind::Text || kind == AnswerFormat::Kind::Tags) return false;
  return calls_format(service, request).is_null();
}

std::unique_ptr<TokenConstraint> chat_constraint(const Service& service, const ChatRequest& request,
                                                 ReasoningStart start) {
  auto answer = answer_constraint(service, request);
  if (!answer && !request.thinking_budget) return nullptr;
  if (!service.reasoning_tokens) return answer;
  return std::make_unique<ReasoningConstraint>(
      service.reasoning_tokens, ReasoningLimits{.start = start, .budget = request.thinking_budget}, std::move(answer));
}

}  // namespace braid::server
