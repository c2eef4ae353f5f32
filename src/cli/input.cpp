// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/json.h"

namespace braid::cli {

std::string read_text(const std::string& file) {
  if (file == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  if (!std::filesystem::is_fifo(file)) return read_file(file);
  std::ifstream pipe(file, std::ios::binary);  // what a shell makes of <(command)
  return std::string(std::istreambuf_iterator<char>(pipe), {});
}

}  // namespace braid::cli
