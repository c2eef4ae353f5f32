// Strings as Python sees them: characters, spaces, lines, searching, cutting and case.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid::jinja {

// str.isspace() and the \s of Python's regular expressions.
bool is_space(uint32_t code);
std::string_view strip_spaces(std::string_view text);

enum class Side { Left, Right, Both };
// Removes spaces, or the characters in `characters` where given.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> characters = std::nullopt);

// Byte offset of the first (last) occurrence, or npos. Linear in the text's size.
size_t find_bytes(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last_bytes(std::string_view text, std::string_view part);

// Byte offset of character `index`, which may be one past the last.
size_t byte_offset(std::string_view text, size_t index);
size_t character_count(std::string_view text);
std::vector<uint32_t> to_characters(std::string_view text);
std::string from_characters(const std::vector<uint32_t>& characters);

// str.split(separator, limit); `limit` < 0: no limit. Without a separator: at runs of spaces.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
std::vector<std::string> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t limit);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);
// str.replace(old, fresh, count); count < 0: all.
struct Replacement {
  std::string_view old, fresh;
  int64_t count = -1;
};
std::string replace(std::string_view text, const Replacement& replacement);
// Occurrences that do not overlap; an empty part occurs between all characters.
int64_t count_occurrences(std::string_view text, std::string_view part);
std::string repeat(std::string_view text, int64_t times);
// Filled up to `width` characters on the given sides.
std::string pad(std::string_view text, int64_t width, Side side, std::string_view fill = " ");

enum class Case { Upper, Lower, Title, Capitalized, Swapped };
std::string change_case(std::string_view text, Case wanted);
// Upper case of the first character and lower case of the others, as str.title() does for one word.
std::string upper_first(std::string_view text);

enum class CharacterClass { Alpha, Decimal, Digit, Numeric, Alnum, Space, Printable, Ascii };
bool in_class(uint32_t code, CharacterClass wanted);
// str.isalpha() and its kin; false for an empty string, except Ascii and Printable.
bool all_in_class(std::string_view text, CharacterClass wanted);
bool is_word_character(uint32_t code);  // \w
bool is_lower(std::string_view text);
bool is_upper(std::string_view text);
bool is_title(std::string_view text);

std::string escape_html(std::string_view text);
// urllib.parse.quote; in a query a space is "+" and "/" is quoted too.
std::string quote_url(std::string_view text, bool query);

}  // namespace braid::jinja
