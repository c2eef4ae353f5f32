// Unicode: normalisation forms, case and classes of characters, over UTF-8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };

// `text` (valid UTF-8) in a normalisation form. Linear in the text but for sorting the marks of one base character.
std::string normalized(std::string_view text, NormalForm form);

// The full lower-case mapping of one character, without context.
void append_lowercase(std::string& out, uint32_t code);

bool is_mark(uint32_t code);         // general category M
bool is_number(uint32_t code);       // general category N
bool is_punctuation(uint32_t code);  // general category P, or one of ASCII's punctuation characters
bool is_space(uint32_t code);        // property White_Space
bool is_word(uint32_t code);         // Alphabetic, M, Nd, Pc or a joiner

}  // namespace braid
