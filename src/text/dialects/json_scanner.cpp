// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/json_scanner.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/json.h"

namespace braid {
namespace {

constexpr size_t kDepth = 200;  // below what parse_json() accepts

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

}  // namespace

void append_json_escaped(std::string_view text, std::string& out) {
  constexpr std::string_view kShort = "\b\f\n\r\t";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out += '\\';
      out += "bfnrt"[at];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
}

std::optional<std::string> mended_json(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  JsonScanner scanner;
  std::string out;
  using Result = JsonScanner::Result;
  for (size_t i = 0; i < text.size(); ++i) {
    const Result result = scanner.push(text[i], out);
    if (result == Result::Last && i + 1 == text.size()) return out;
    if (result != Result::More) return std::nullopt;
  }
  if (scanner.push(' ', out) != Result::Before) return std::nullopt;
  return out;
}

// Text of keys waits with the comma before it, so that an object can be closed at any place.
void JsonScanner::put(std::string_view text, std::string& out) {
  if (key_) {
    pending_ += text;
  } else {
    out += text;
  }
}

void JsonScanner::finish_unicode(std::string& out) {
  if (!high_.empty()) put("\\ufffd", out);
  high_.clear();
}

JsonScanner::Result JsonScanner::push(char c, std::string& out) {
  if (state_ == State::Done) return Result::Before;
  if (state_ == State::String) return push_string(c, out);
  if (state_ == State::Scalar) {
    if (is_scalar(c)) return push_scalar(c);
    if (!flush_scalar(out)) return Result::Fault;
    if (end_value() == Result::Last) return Result::Before;
  }
  if (is_space(c)) {
    if (!open_.empty()) pending_ += c;
    return Result::More;
  }
  switch (state_) {
    case State::FirstKey:
      if (c == '}') return close(c, out);
      [[fallthrough]];
    case State::Key:
      if (c == '}') return close_after_comma(c, out);
      if (c != '"') return Result::Fault;
      pending_ += c;
      key_ = true;
      state_ = State::String;
      return Result::More;
    case State::Colon:
      if (c != ':') return Result::Fault;
      pending_ += c;
      state_ = State::Value;
      return Result::More;
    case State::After:
      if (c == open_.back()) return close(c, out);
      if (c != ',') return Result::Fault;
      pending_ += c;
      state_ = open_.back() == '}' ? State::Key : State::Value;
      return Result::More;
    case State::FirstItem:
      if (c == ']') return close(c, out);
      [[fallthrough]];
    default:
      if (c == ']' && !open_.empty() && open_.back() == c) return close_after_comma(c, out);
      return begin_value(c, out);
  }
}

JsonScanner::Result JsonScanner::close_after_comma(char bracket, std::string& out) {
  pending_.clear();
  return close(bracket, out);
}

JsonScanner::Result JsonScanner::begin_value(char c, std::string& out) {
  if (is_scalar(c)) {
    state_ = State::Scalar;
    return push_scalar(c);
  }
  if (c != '"' && ((c != '{' && c != '[') || open_.size() == kDepth)) return Result::Fault;
  out += pending_;
  pending_.clear();
  out += c;
  if (c == '"') {
    state_ = State::String;
  } else {
    open_.push_back(c == '{' ? '}' : ']');
    state_ = c == '{' ? State::FirstKey : State::FirstItem;
  }
  return Result::More;
}

JsonScanner::Result JsonScanner::close(char bracket, std::string& out) {
  out += pending_;
  pending_.clear();
  out += bracket;
  open_.pop_back();
  return end_value();
}

JsonScanner::Result JsonScanner::end_value() {
  state_ = open_.empty() ? State::Done : State::After;
  return open_.empty() ? Result::Last : Result::More;
}

JsonScanner::Result JsonScanner::push_string(char c, std::string& out) {
  if (!escape_.empty()) return push_escape(c, out);
  if (c == '\\') {
    escape_ = c;
    return Result::More;
  }
  finish_unicode(out);
  if (c != '"') {
    const char text[] = {c};
    std::string escaped;
    append_json_escaped({text, 1}, escaped);
    put(escaped, out);
    return Result::More;
  }
  put("\"", out);
  if (!key_) return end_value();
  key_ = false;
  state_ = State::Colon;
  return Result::More;
}

JsonScanner::Result JsonScanner::push_escape(char c, std::string& out) {
  const bool unicode = escape_.size() > 1;
  if (unicode ? !is_hex(c) : std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) {
    finish_unicode(out);
    put("\\" + escape_, out);
    escape_.clear();
    return push_string(c, out);
  }
  escape_ += c;
  if (escape_[1] == 'u' && escape_.size() < 6) return Result::More;
  const std::string done = std::exchange(escape_, {});
  const unsigned code = done[1] == 'u' ? static_cast<unsigned>(std::stoul(done.substr(2), nullptr, 16)) : 0;
  if (code >= 0xDC00 && code < 0xE000 && !high_.empty()) {
    put(std::exchange(high_, {}) + done, out);
    return Result::More;
  }
  finish_unicode(out);
  if (code >= 0xD800 && code < 0xDC00) {
    high_ = done;
  } else {
    put(code >= 0xDC00 && code < 0xE000 ? "\\ufffd" : done, out);
  }
  return Result::More;
}

JsonScanner::Result JsonScanner::push_scalar(char c) {
  if (scalar_.size() > 400) return Result::Fault;  // no double has as many digits
  scalar_ += c;
  return Result::More;
}

bool JsonScanner::flush_scalar(std::string& out) {
  std::string word = scalar_;
  if (word == "True") word = "true";
  if (word == "False") word = "false";
  if (word == "None") word = "null";
  if (Json::parse(word, nullptr, false).is_discarded()) return false;
  out += pending_ + word;
  pending_.clear();
  scalar_.clear();
  return true;
}

void JsonScanner::complete(std::string& out) {
  if (state_ == State::String && !key_) {
    finish_unicode(out);
    out += '"';
    escape_.clear();
  } else if (state_ == State::Scalar) {
    if (!flush_scalar(out) && open_.empty()) out += "null";
  } else if (state_ == State::Value && open_.empty()) {
    out += "null";
  }
  pending_.clear();
  key_ = false;
  for (; !open_.empty(); open_.pop_back()) out += open_.back();
  state_ = State::Done;
}

}  // namespace braid
