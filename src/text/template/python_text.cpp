// SPDX-License-Identifier: Apache-2.0
#include "text/template/python_text.h"

#include <string.h>  // memmem

#include <algorithm>

#include "base/utf8.h"
#include "text/template/fault.h"

namespace braid::jinja {
namespace {

bool is_line_end(uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

size_t previous_start(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::vector<std::string> split_spaces(std::string_view text, int64_t limit) {
  std::vector<std::string> parts;
  text = strip(text, Side::Left);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.emplace_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Utf8Char c = decode_utf8(text, end);
      if (is_space(c.code)) break;
      end += c.bytes;
    }
    parts.emplace_back(text.substr(0, end));
    text = strip(text.substr(end), Side::Left);
  }
  return parts;
}

std::vector<std::string> split_spaces_from_right(std::string_view text, int64_t limit) {
  std::vector<std::string> parts;
  text = strip(text, Side::Right);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.emplace_back(text);
      break;
    }
    size_t start = text.size();
    while (start > 0) {
      const size_t before = previous_start(text, start);
      if (is_space(decode_utf8(text, before).code)) break;
      start = before;
    }
    parts.emplace_back(text.substr(start));
    text = strip(text.substr(0, start), Side::Right);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

std::string_view strip_spaces(std::string_view text) { return strip(text, Side::Both); }

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> characters) {
  std::vector<uint32_t> wanted;
  if (characters) wanted = to_characters(*characters);
  const auto removable = [&](uint32_t code) {
    return characters ? std::find(wanted.begin(), wanted.end(), code) != wanted.end() : is_space(code);
  };
  size_t start = 0, end = text.size();
  while (side != Side::Right && start < end) {
    const Utf8Char c = decode_utf8(text, start);
    if (!removable(c.code)) break;
    start += c.bytes;
  }
  while (side != Side::Left && end > start) {
    const size_t before = previous_start(text, end);
    if (!removable(decode_utf8(text, before).code)) break;
    end = before;
  }
  return text.substr(start, end - start);
}

size_t find_bytes(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

size_t find_last_bytes(std::string_view text, std::string_view part) {
  if (part.empty()) return text.size();
  if (part.size() > text.size()) return std::string_view::npos;
  // Forward search in a reversed window at the end, doubled until it holds an occurrence: linear in what is read.
  const std::string reversed_part(part.rbegin(), part.rend());
  for (size_t window = part.size() * 2;; window *= 2) {
    const std::string_view tail = window >= text.size() ? text : text.substr(text.size() - window);
    const std::string reversed(tail.rbegin(), tail.rend());
    const size_t found = find_bytes(reversed, reversed_part);
    if (found != std::string_view::npos) return text.size() - found - part.size();
    if (tail.size() == text.size()) return std::string_view::npos;
  }
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += decode_utf8(text, at).bytes;
    --index;
  }
  return at;
}

size_t character_count(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

std::vector<uint32_t> to_characters(std::string_view text) {
  std::vector<uint32_t> characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    characters.push_back(c.code);
    at += c.bytes;
  }
  return characters;
}

std::string from_characters(const std::vector<uint32_t>& characters) {
  std::string text;
  text.reserve(characters.size());
  for (const uint32_t code : characters) append_utf8(text, code);
  return text;
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator) return split_spaces(text, limit);
  if (separator->empty()) raise("empty separator");
  std::vector<std::string> parts;
  size_t at = 0;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t found = find_bytes(text, *separator, at);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(at, found - at));
    at = found + separator->size();
  }
  parts.emplace_back(text.substr(at));
  return parts;
}

std::vector<std::string> split_from_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t limit) {
  if (!separator) return split_spaces_from_right(text, limit);
  if (separator->empty()) raise("empty separator");
  std::vector<std::string> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    const size_t found = find_last_bytes(text, *separator);
    if (found == std::string_view::npos) break;
    parts.emplace_back(text.substr(found + separator->size()));
    text = text.substr(0, found);
  }
  parts.emplace_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    size_t end = at + c.bytes;
    if (is_line_end(c.code)) {
      if (c.code == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.emplace_back(text.substr(start, (keep_ends ? end : at) - start));
      start = end;
    }
    at = end;
  }
  if (start < text.size()) lines.emplace_back(text.substr(start));
  return lines;
}

std::string replace(std::string_view text, const Replacement& replacement) {
  const auto& [old, fresh, count] = replacement;
  std::string out;
  size_t at = 0;
  const auto put = [&](std::string_view piece) {
    check_text_size(out.size() + piece.size());
    out += piece;
  };
  for (int64_t done = 0; count < 0 || done < count; ++done) {
    if (old.empty()) {  // before every character and at the end
      put(fresh);
      if (at >= text.size()) return out;
      const size_t bytes = decode_utf8(text, at).bytes;
      put(text.substr(at, bytes));
      at += bytes;
      continue;
    }
    const size_t found = find_bytes(text, old, at);
    if (found == std::string_view::npos) break;
    put(text.substr(at, found - at));
    put(fresh);
    at = found + old.size();
  }
  put(text.substr(at));
  return out;
}

int64_t count_occurrences(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(character_count(text)) + 1;
  int64_t count = 0;
  for (size_t at = find_bytes(text, part); at != std::string_view::npos;
       at = find_bytes(text, part, at + part.size())) {
    ++count;
  }
  return count;
}

std::string repeat(std::string_view text, int64_t times) {
  if (times <= 0 || text.empty()) return {};
  if (static_cast<uint64_t>(times) > kMaxTextBytes / text.size()) check_text_size(kMaxTextBytes + 1);
  if (text.size() == 1) return std::string(static_cast<size_t>(times), text[0]);
  std::string out;
  out.reserve(text.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string pad(std::string_view text, int64_t width, Side side, std::string_view fill) {
  const auto length = static_cast<int64_t>(character_count(text));
  if (width <= length) return std::string(text);
  const int64_t missing = width - length;
  // str.center puts the odd one on the left where the width is odd.
  const int64_t left = side == Side::Left ? missing : side == Side::Right ? 0 : missing / 2 + (missing & width & 1);
  std::string out = repeat(fill, left);
  out += text;
  out += repeat(fill, missing - left);
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string quote_url(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

}  // namespace braid::jinja
