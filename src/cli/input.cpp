// SPDX-License-Identifier: Apache-2.0
#include "cli/input.h"

#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/files.h"
#include "base/interrupt.h"
#include "base/utf8.h"

namespace braid::cli {

std::string read_text(const std::string& file) {
  std::string text = file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_whole(file);
  check_interrupted();  // it ends the waiting
  return text;
}

std::string name_of_input(const std::string& file) { return file == "-" ? "standard input" : file; }

void check_utf8(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char character = decode_utf8(text, at);
    if (!character.valid) fail("{}: not UTF-8: byte 0x{:02x} at {}", name, static_cast<unsigned char>(text[at]), at);
    at += character.bytes;
  }
}

}  // namespace braid::cli
