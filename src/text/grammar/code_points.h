// CodePointSet: a set of Unicode scalar values, and the byte sequences that spell a range of them in UTF-8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace braid {

struct CodePointRange {
  uint32_t first = 0, last = 0;
  auto operator<=>(const CodePointRange&) const = default;
};

// Surrogates are in no set: they cannot be spelled in UTF-8.
class CodePointSet {
 public:
  CodePointSet() = default;
  // Any order, overlapping or not; what is no scalar value is left out.
  explicit CodePointSet(std::vector<CodePointRange> ranges);
  static CodePointSet of(uint32_t first, uint32_t last) { return CodePointSet({{first, last}}); }
  static CodePointSet of_each(std::u32string_view characters);
  static const CodePointSet& all();

  CodePointSet operator|(const CodePointSet& other) const;
  CodePointSet operator&(const CodePointSet& other) const;
  CodePointSet operator-(const CodePointSet& other) const;
  bool operator==(const CodePointSet&) const = default;

  bool contains(uint32_t code) const;
  bool empty() const { return ranges_.empty(); }
  // Ascending, apart from each other.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

struct ByteRange {
  uint8_t first = 0, last = 0;
  auto operator<=>(const ByteRange&) const = default;
};

// One to four ranges of bytes, one after the other: every choice of one byte from each is a character.
struct Utf8Path {
  std::array<ByteRange, 4> bytes;
  int length = 0;
};

// Paths that spell the characters of `set` and nothing else, each character by one path.
std::vector<Utf8Path> utf8_paths(const CodePointSet& set);

// The set of a Unicode general category ("L", "Lu", "Nd", ...); empty for a name that is none.
CodePointSet category_set(std::string_view name);

}  // namespace braid
