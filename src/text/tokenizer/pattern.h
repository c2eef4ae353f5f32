// Pattern: a compiled search expression, and the cover of a text by its matches and the gaps between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

// A stretch of a text in bytes, [begin, end).
struct Span {
  size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

// A stretch that a pattern matched, or one between matches.
struct Stretch {
  Span span;
  bool matched = false;
};

// What one thread needs to match; it serves any pattern, one at a time.
class MatchSpace {
 public:
  MatchSpace();
  ~MatchSpace();
  MatchSpace(MatchSpace&&) noexcept;
  MatchSpace& operator=(MatchSpace&&) noexcept;

 private:
  friend class Pattern;
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// Immutable after construction; any number of threads may match, each with its own MatchSpace.
class Pattern {
 public:
  // In the dialect of tokenizer.json (pattern_syntax.h). A pattern that does not compile is an Input error.
  static Pattern regex(std::string_view expression);
  static Pattern literal(std::string_view text);

  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  // Replaces `cover` with consecutive stretches that together are the whole of `text`, which has to be valid UTF-8.
  // Matches are found from left to right, each from the end of the one before; an empty match counts unless it touches
  // the one before. An empty text is one unmatched empty stretch. A match that exceeds the limits on backtracking or
  // memory is an Input error.
  void cover(std::string_view text, MatchSpace& space, std::vector<Stretch>& cover) const;

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<const Code> code);
  static Pattern compile(const std::string& expression, std::string_view shown, unsigned options);
  std::unique_ptr<const Code> code_;
};

}  // namespace braid
