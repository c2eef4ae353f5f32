// What an answer is held to: its format, the calls that it must make, and how long it may think.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "server/chat/request.h"
#include "server/service.h"
#include "text/constraint.h"
#include "text/dialects/dialect.h"

namespace braid::server {

// One choice's own; null where nothing is asked for. An ApiError (Invalid) that names the field for a form that cannot
// be compiled.
std::unique_ptr<TokenConstraint> chat_constraint(const Service& service, const ChatRequest& request,
                                                 ReasoningStart start);
// The same of text that is completed: it has no thoughts.
std::unique_ptr<TokenConstraint> text_constraint(const Service& service, const AnswerFormat& format);
// Whether all of an answer, behind its thoughts, is of the format that was asked for, so that no mark is one in it.
bool held_to_format(const Service& service, const ChatRequest& request);

}  // namespace braid::server
