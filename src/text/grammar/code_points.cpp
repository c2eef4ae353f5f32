// Sets of code points as sorted ranges; ranges are cut where the length or a leading byte of their UTF-8 changes.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/code_points.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace braid {
namespace {

constexpr uint32_t kLastCode = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

std::vector<CodePointRange> normalised(std::vector<CodePointRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : ranges) {
    if (range.first > range.last) continue;
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// For a range whose characters all have the same number of bytes.
void append_paths(CodePointRange range, std::vector<Utf8Path>& paths) {
  // Cut where a suffix of continuation bytes does not cover its whole extent.
  for (int free = 1; free < 4; ++free) {
    const uint32_t low = (1u << (6 * free)) - 1;
    if ((range.first & ~low) == (range.last & ~low) || range.last < 0x80) continue;
    if ((range.first & low) != 0) {
      append_paths({range.first, range.first | low}, paths);
      append_paths({(range.first | low) + 1, range.last}, paths);
      return;
    }
    if ((range.last & low) != low) {
      append_paths({range.first, (range.last & ~low) - 1}, paths);
      append_paths({range.last & ~low, range.last}, paths);
      return;
    }
  }
  std::string first, last;
  append_utf8(first, range.first);
  append_utf8(last, range.last);
  Utf8Path path;
  path.length = static_cast<int>(first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    path.bytes[i] = {static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])};
  }
  paths.push_back(path);
}

}  // namespace

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  std::vector<CodePointRange> valid;
  for (CodePointRange range : normalised(std::move(ranges))) {
    range.last = std::min(range.last, kLastCode);
    if (range.first < kFirstSurrogate) valid.push_back({range.first, std::min(range.last, kFirstSurrogate - 1)});
    if (range.last > kLastSurrogate) valid.push_back({std::max(range.first, kLastSurrogate + 1), range.last});
  }
  ranges_ = std::move(valid);
  std::erase_if(ranges_, [](const CodePointRange& range) { return range.first > range.last; });
}

CodePointSet CodePointSet::of_each(std::u32string_view characters) {
  std::vector<CodePointRange> ranges;
  for (const char32_t code : characters) ranges.push_back({code, code});
  return CodePointSet(std::move(ranges));
}

const CodePointSet& CodePointSet::all() {
  static const CodePointSet set = of(0, kLastCode);
  return set;
}

CodePointSet CodePointSet::operator|(const CodePointSet& other) const {
  std::vector<CodePointRange> ranges = ranges_;
  ranges.insert(ranges.end(), other.ranges_.begin(), other.ranges_.end());
  return CodePointSet(std::move(ranges));
}

CodePointSet CodePointSet::operator&(const CodePointSet& other) const {
  CodePointSet both;
  for (size_t i = 0, j = 0; i < ranges_.size() && j < other.ranges_.size();) {
    const CodePointRange a = ranges_[i], b = other.ranges_[j];
    const CodePointRange shared{std::max(a.first, b.first), std::min(a.last, b.last)};
    if (shared.first <= shared.last) both.ranges_.push_back(shared);
    if (a.last < b.last) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

CodePointSet CodePointSet::operator-(const CodePointSet& other) const {
  std::vector<CodePointRange> gaps;
  uint32_t next = 0;
  for (const CodePointRange& range : other.ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  gaps.push_back({next, kLastCode});
  return *this & CodePointSet(std::move(gaps));
}

bool CodePointSet::contains(uint32_t code) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), code,
                                      [](uint32_t c, const CodePointRange& range) { return c < range.first; });
  return after != ranges_.begin() && std::prev(after)->last >= code;
}

std::vector<Utf8Path> utf8_paths(const CodePointSet& set) {
  constexpr std::array<CodePointRange, 4> kLengths{{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCode}}};
  std::vector<Utf8Path> paths;
  for (const CodePointRange& range : set.ranges()) {
    for (const CodePointRange& length : kLengths) {
      const CodePointRange part{std::max(range.first, length.first), std::min(range.last, length.last)};
      if (part.first <= part.last) append_paths(part, paths);
    }
  }
  return paths;
}

CodePointSet category_set(std::string_view name) {
  std::vector<CodePointRange> ranges;
  if (name.empty() || name.size() > 2) return {};
  for (uint32_t code = 0; code <= kLastCode; ++code) {
    if (code == kFirstSurrogate) code = kLastSurrogate + 1;
    const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    if (category.substr(0, name.size()) != name) continue;
    if (!ranges.empty() && ranges.back().last + 1 == code) {
      ranges.back().last = code;
    } else {
      ranges.push_back({code, code});
    }
  }
  return CodePointSet(std::move(ranges));
}

}  // namespace braid
