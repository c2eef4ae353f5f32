// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace braid {
namespace {

constexpr int kMaxDepth = 256;

// Python's json module writes NaN, Infinity and -Infinity; JSON has no such words, so they become null and large
// numbers.
std::string without_python_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
    } else if (text.substr(i, 3) == "NaN") {
      out += "null";
      i += 2;
    } else if (text.substr(i, 8) == "Infinity") {
      out += "1e308";
      i += 7;
    } else {
      in_string = c == '"';
      out += c;
    }
  }
  return out;
}

void check_depth(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) fail("not valid JSON: nested deeper than {} levels at byte {}", kMaxDepth, i);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  return with_context(name, [&] {
    check_depth(text);
    try {
      return Json::parse(without_python_numbers(text));
    } catch (const nlohmann::json::exception& error) {
      std::string reason = error.what();
      if (const auto colon = reason.find("] "); colon != std::string::npos) reason = reason.substr(colon + 2);
      fail("not valid JSON: {}", reason);
    }
  });
}

std::string read_file(const std::filesystem::path& file) {
  std::error_code fault;
  const auto kind = std::filesystem::status(file, fault);
  if (std::filesystem::is_directory(kind)) fail("{}: is a folder, not a file", file.string());
  // A pipe without a writer would wait for ever, a device may never end.
  if (std::filesystem::exists(kind) && !std::filesystem::is_regular_file(kind))
    fail("{}: is not a regular file", file.string());
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("{}: cannot be read: {}", file.string(), std::strerror(errno));
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (in.bad()) fail("{}: cannot be read: {}", file.string(), std::strerror(errno));
  return std::move(bytes).str();
}

Json read_json(const std::filesystem::path& file) { return parse_json(read_file(file), file.string()); }

}  // namespace braid
