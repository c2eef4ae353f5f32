// The 256 printable characters that byte-level vocabularies write bytes with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Appends the character of every byte of `bytes`, as UTF-8 (one or two bytes each).
void append_byte_characters(std::string& out, std::string_view bytes);

// The bytes that `characters` (UTF-8) stand for; nothing if one of them is no byte's character.
std::optional<std::string> bytes_of_characters(std::string_view characters);

}  // namespace braid
