// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

namespace braid {
namespace {

struct Lead {
  int length;          // 0: not a lead byte
  uint8_t second_low;  // allowed range of the second byte, which rules out overlong forms and surrogates
  uint8_t second_high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 1) return {byte(0), 1, true};
  if (lead.length == 0) return {0xFFFD, 1, false};
  uint32_t code = byte(0) & (0x7Fu >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    const size_t position = static_cast<size_t>(i);
    const uint8_t low = i == 1 ? lead.second_low : 0x80, high = i == 1 ? lead.second_high : 0xBF;
    if (at + position >= text.size() || byte(position) < low || byte(position) > high) return {0xFFFD, position, false};
    code = code << 6 | (byte(position) & 0x3Fu);
  }
  return {code, static_cast<size_t>(lead.length), true};
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) return false;
    at += c.bytes;
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    append_utf8(out, c.code);
    at += c.bytes;
  }
  return out;
}

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    const size_t at = text.size() - tail;
    const Lead lead = lead_of(static_cast<uint8_t>(text[at]));
    if (lead.length == 0) continue;  // a continuation byte: look further back
    const bool cut = lead.length > static_cast<int>(tail);
    return cut && decode_utf8(text, at).bytes == tail ? tail : 0;
  }
  return 0;
}

}  // namespace braid
