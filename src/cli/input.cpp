// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <iostream>
#include <iterator>

#include "base/json.h"

namespace braid::cli {

std::string read_text(const std::string& file) {
  if (file != "-") return read_file(file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

}  // namespace braid::cli
