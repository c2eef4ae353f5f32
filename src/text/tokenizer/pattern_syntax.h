// Rewrites a regular expression in the dialect of tokenizer.json files into PCRE2's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace braid {

// tokenizer.json patterns are written for Oniguruma with its Ruby-like syntax over Unicode. The result means the same
// to PCRE2 with UTF, UCP, MULTILINE and line feed as the newline. What differs is spelled out:
//   \s \w \d \b and their opposites   as Unicode properties (PCRE2's own sets differ from Oniguruma's)
//   \h \v                             a hexadecimal digit; the vertical tab
//   (?m)                              the dot matches a line feed, too
//   (?i) without a colon              reaches to the end of the branches of its group
//   x{n,m}+                           a repetition of x{n,m}, not a possessive one
//   [a[bc]]                           a union
//   \p{Han}                           the script, without script extensions
// Ignoring case, a character never matches several ("ß" and "ss"), which Oniguruma allows.
// What has no plain equivalent (back references, calls, names, class intersections, extended mode) is an Input error.
std::string pcre2_pattern(std::string_view oniguruma);

}  // namespace braid
