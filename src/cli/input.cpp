// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <iostream>
#include <iterator>

#include "base/files.h"
#include "base/interrupt.h"

namespace braid::cli {

std::string read_text(const std::string& file) {
  std::string text = file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_whole(file);
  check_interrupted();  // it ends the waiting
  return text;
}

}  // namespace braid::cli
