// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace braid {
namespace {

constexpr uint32_t kFirstSubstitute = 0x100;  // bytes without a printable character of their own get these, in order
constexpr uint32_t kEndOfAlphabet = kFirstSubstitute + 68;

bool shows_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> character;
  std::array<int16_t, kEndOfAlphabet> byte;  // -1: no byte's character

  Alphabet() {
    byte.fill(-1);
    uint32_t substitute = kFirstSubstitute;
    for (uint32_t value = 0; value < 256; ++value) {
      const uint32_t code = shows_itself(value) ? value : substitute++;
      append_utf8(character[value], code);
      byte[code] = static_cast<int16_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

void append_byte_characters(std::string& out, std::string_view bytes) {
  const Alphabet& table = alphabet();
  for (const char byte : bytes) out += table.character[static_cast<uint8_t>(byte)];
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(characters.size());
  for (size_t at = 0; at < characters.size();) {
    const Utf8Char c = decode_utf8(characters, at);
    if (!c.valid || c.code >= kEndOfAlphabet || table.byte[c.code] < 0) return std::nullopt;
    bytes += static_cast<char>(table.byte[c.code]);
    at += c.bytes;
  }
  return bytes;
}

}  // namespace braid
