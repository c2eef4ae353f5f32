// The form that errors have in the chat, completions and models APIs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "server/api_error.h"
#include "server/http/message.h"

namespace braid::server {

Json openai_error_body(const ApiError& error);  // {"error": {"message", "type", "param", "code"}}
HttpResponse openai_error(const ApiError& error);

// JSON as it goes out: bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json& value);

}  // namespace braid::server
