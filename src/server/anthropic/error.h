// The form that errors have in the messages API.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "server/api_error.h"
#include "server/http/message.h"

namespace braid::server {

Json anthropic_error_body(const ApiError& error);  // {"type": "error", "error": {"type", "message"}}
HttpResponse anthropic_error(const ApiError& error);

}  // namespace braid::server
