// What a conversation has to look like before a chat template may walk over it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/json.h"

namespace braid {

// `messages`: a list of at least one object with a `role` (a string). `content`: absent, null, a string, or a list of
// strings and of objects with a `type` (those of type "text" with a `text`). `tool_calls`: absent, null or a list of
// calls, each with the `name` of a function, in `function` or bare. `reasoning_content`, `name` and `tool_call_id` are
// strings where they are there. `tools`: null or a list of objects; what they hold in `function` has a `name`. Other
// members are the template's business. The Input error begins with the place, "messages[1].tool_calls[0].name: ...", so
// that a command and a server can say the same.
void check_conversation(const Json& messages, const Json& tools);

// Refuses parts of content that are not text, of a conversation that is checked: a template may write their place into
// the prompt, and nothing would fill it.
void check_text_alone(const Json& messages);

}  // namespace braid
