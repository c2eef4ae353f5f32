// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/interrupt.h"
#include "base/json.h"

namespace braid::cli {

std::string read_text(const std::string& file) {
  std::error_code error;  // left to read_file
  if (file == "-") {
    std::string text(std::istreambuf_iterator<char>(std::cin), {});
    check_interrupted();  // it ends the waiting
    return text;
  }
  if (!std::filesystem::is_fifo(file, error)) return read_file(file);
  std::ifstream pipe(file, std::ios::binary);  // what a shell makes of <(command)
  return std::string(std::istreambuf_iterator<char>(pipe), {});
}

}  // namespace braid::cli
