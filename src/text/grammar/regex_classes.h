// Reading of characters, escapes and bracketed classes in a pattern's text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "text/grammar/code_points.h"

namespace braid {

// A place in a text under way. The text is valid UTF-8.
struct RegexText {
  std::string_view text;
  size_t at = 0;

  bool done() const { return at >= text.size(); }
  // '\0' beyond the end.
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  char next() { return text[at++]; }
  bool take(std::string_view expected);
  uint32_t next_code();
  // The number of exactly so many hexadecimal digits, which are taken.
  uint32_t hexadecimal(int digits);
  // Throws an Input error with the text and the place.
  [[noreturn]] void refuse(std::string_view what) const;
};

// What follows a backslash: \d \w \s \p{..} and their opposites, \n, \x41, \u0041, \u{41}, or a character itself.
CodePointSet parse_class_escape(RegexText& in);
// What follows '[', with the closing ']'.
CodePointSet parse_class(RegexText& in);

}  // namespace braid
