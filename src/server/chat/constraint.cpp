// SPDX-License-Identifier: Apache-2.0
#include "server/chat/constraint.h"

#include <fmt/format.h>

#include "server/api_error.h"
#include "text/dialects/reasoning_constraint.h"

namespace braid::server {
namespace {

void refuse_format(const AnswerFormat& format) {
  if (format.kind != AnswerFormat::Kind::Text)
    throw ApiError(Fault::Invalid, fmt::format("{}: structured answers are not supported yet", format.field),
                   format.field, "unsupported");
}

}  // namespace

std::unique_ptr<TokenConstraint> text_constraint(const Service&, const AnswerFormat& format) {
  refuse_format(format);
  return nullptr;
}

std::unique_ptr<TokenConstraint> chat_constraint(const Service& service, const ChatRequest& request,
                                                 ReasoningStart start) {
  auto answer = text_constraint(service, request.answer.format);
  if (!answer && !request.thinking_budget) return nullptr;
  if (!service.reasoning_tokens) return answer;
  return std::make_unique<ReasoningConstraint>(
      service.reasoning_tokens, ReasoningLimits{.start = start, .budget = request.thinking_budget}, std::move(answer));
}

}  // namespace braid::server
