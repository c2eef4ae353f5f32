// SPDX-License-Identifier: Apache-2.0
#include "server/http/message.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace braid::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool same_name(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& header : headers)
    if (same_name(header.name, name)) return header.value;
  return {};
}

std::string decode_percent(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    if (text[at] == '%' && at + 2 < text.size()) {
      const char* digits = text.data() + at + 1;
      if (std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
        out += static_cast<char>(code);
        at += 2;
        continue;
      }
    }
    out += text[at];
  }
  return out;
}

std::string_view reason_of(int status) {
  static constexpr std::pair<int, std::string_view> kReasons[] = {
      {200, "OK"},
      {204, "No Content"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Payload Too Large"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
      {529, "Overloaded"},
  };
  for (const auto& [code, reason] : kReasons)
    if (code == status) return reason;
  return "Unknown";
}

}  // namespace braid::server
