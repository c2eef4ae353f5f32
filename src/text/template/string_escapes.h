// The escapes of string literals ("\n", "\x41", "\u00e9" ...), after Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace braid::jinja {

// Throws SyntaxFault at `line` for an escape that Python refuses. Unknown escapes keep their backslash.
std::string resolve_escapes(std::string_view text, int line);

}  // namespace braid::jinja
