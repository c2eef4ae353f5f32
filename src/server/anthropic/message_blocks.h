// Brings the messages and tools of the messages API into the form that chat templates read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"
#include "server/fields.h"

namespace braid::server {

// Messages of the roles user and assistant, whose content is a string or blocks: text, thinking, tool_use and
// tool_result. Results become messages of the role tool, thoughts the reasoning_content of their message; neighbours of
// one role become one message. Images and documents are refused.
Json messages_of_blocks(const Json& messages);

// The system prompt as a message; null without one. A string or text blocks.
Json system_message(Fields& fields);

// {"name", "description", "input_schema"} as functions; null without tools. Tools that a server would run are refused.
Json tools_of_schemas(const Json& tools);

}  // namespace braid::server
