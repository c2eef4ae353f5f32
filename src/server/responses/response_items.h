// Brings the input items of the responses API into the form that chat templates read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "server/fields.h"

namespace braid::server {

struct ResponseInput {
  Json items = Json::array();     // as the API lists them
  Json messages = Json::array();  // in the template's form
};

// `input` is a string, or a list of messages, function_call, function_call_output and reasoning items. Calls become one
// assistant's message with the text before them; reasoning becomes that of the message that follows it. Faults are
// ApiErrors that name the place. Images, files and references are refused.
ResponseInput read_response_input(Fields& fields);

// Functions in the chat form; null without tools. Tools that a server would run are refused.
Json tools_of_functions(const Json& tools);

}  // namespace braid::server
