// Checks messages and tools, and brings them into the form that chat templates read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace braid::server {

// Roles developer, system, user, assistant and tool; content a string or parts of text; tool calls with a name and
// arguments. Faults are ApiErrors that name the place: "messages[2].role". Images and sound are refused.
Json normal_messages(const Json& messages);

// {"type": "function", "function": {"name", "description", "parameters"}}, as they came where they are right.
Json normal_tools(const Json& tools);

}  // namespace braid::server
