// Text that a command reads: an argument, a file, or standard input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace braid::cli {

// The whole of a file, pipe or device, or of standard input for "-".
std::string read_text(const std::string& file);

}  // namespace braid::cli
