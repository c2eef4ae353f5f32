// The formats of JSON schema as patterns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace braid {

// A pattern that whole texts of this format match; each text that it matches has the format. Nothing for a name that is
// not known. Some formats are narrower here than their definition (docs/grammar.md).
std::optional<std::string> format_pattern(const std::string& name);

}  // namespace braid
