// How much of the end of a text may be the beginning of a mark that is not complete yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

namespace braid {

// The length of the longest proper prefix of `mark` that `text` ends with.
inline size_t partial_match(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1); length > 0; --length)
    if (text.substr(text.size() - length) == mark.substr(0, length)) return length;
  return 0;
}

}  // namespace braid
