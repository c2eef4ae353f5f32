// UTF-8: decoding, encoding and checking, one character at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

struct Utf8Char {
  uint32_t code;  // U+FFFD for an ill-formed sequence
  size_t bytes;   // bytes consumed, at least 1
  bool valid;
};

// Decodes the character that starts at text[at]; `at` must be inside. Ill-formed input (overlong, surrogate, cut short)
// consumes its maximal ill-formed part, as Unicode 15 section 3.9 (U+FFFD substitution) recommends.
Utf8Char decode_utf8(std::string_view text, size_t at);

void append_utf8(std::string& out, uint32_t code);

bool is_utf8(std::string_view text);

// `text` with every maximal ill-formed part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

// How many bytes at the end of `text` are the well-formed start of a character that is not complete yet (0 to 3).
size_t incomplete_utf8_tail(std::string_view text);

}  // namespace braid
