// Text that a command reads: an argument, a file, or standard input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace braid::cli {

// The whole of a file, pipe or device, or of standard input for "-".
std::string read_text(const std::string& file);

// What messages call it: the file, or "standard input" for "-".
std::string name_of_input(const std::string& file);

// Refuses a text that is not UTF-8, saying where; `name` says what it is.
void check_utf8(std::string_view text, std::string_view name);

}  // namespace braid::cli
