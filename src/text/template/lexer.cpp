// SPDX-License-Identifier: Apache-2.0
#include "text/template/lexer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/utf8.h"
#include "text/template/numbers.h"
#include "text/template/python_text.h"
#include "text/template/string_escapes.h"

namespace braid::jinja {
namespace {

// "\r\n" and "\r" become "\n", and the last newline goes.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_and_tag();
    push(TokenKind::End);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message) const { throw SyntaxFault{line_, std::move(message)}; }

  void push(TokenKind kind, std::string text = {}, Value number = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(number)});
  }

  bool looking_at(std::string_view text) const { return std::string_view(source_).substr(at_, text.size()) == text; }

  // Moves on, counting lines.
  void advance_to(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (end > at_) line_starting_ = source_[end - 1] == '\n';
    at_ = end;
  }

  size_t after_spaces(size_t at) const {
    while (at < source_.size()) {
      const Utf8Char c = decode_utf8(source_, at);
      if (!is_space(c.code)) break;
      at += c.bytes;
    }
    return at;
  }

  size_t find_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos; at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() && std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos) return at;
    }
    return std::string::npos;
  }

  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // The data before a tag, without the white space that the tag takes away.
  void push_data(size_t end, char sign, bool strip_line) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip(text, Side::Right);
    } else if (sign != '+' && strip_line) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      const std::string_view tail = text.substr(start);
      const bool starts_line = start > 0 || line_starting_;
      if (starts_line && strip_spaces(tail).empty()) text = text.substr(0, start);
    }
    if (!text.empty()) push(TokenKind::Data, std::string(text));
  }

  void text_and_tag() {
    const size_t tag = find_tag();
    if (tag == std::string::npos) {
      push(TokenKind::Data, source_.substr(at_));
      at_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1], sign = sign_at(tag + 2);
    push_data(tag, sign, kind != '{');
    advance_to(tag);
    const size_t inside = tag + (sign != 0 ? 3 : 2);
    if (kind == '#') return comment(inside);
    if (kind == '%') {
      if (const size_t end = end_of_word_tag(inside, "raw", true)) return raw(end);
    }
    push(kind == '{' ? TokenKind::PrintBegin : TokenKind::BlockBegin);
    advance_to(inside);
    line_starting_ = false;
    while (at_ < source_.size() && !tag_end(kind)) token();
  }

  // Where a tag that consists of one word ends (with the white space it takes), or 0.
  size_t end_of_word_tag(size_t at, std::string_view word, bool begins) const {
    at = after_spaces(at);
    if (std::string_view(source_).substr(at, word.size()) != word) return 0;
    at = after_spaces(at + word.size());
    const std::string_view rest = std::string_view(source_).substr(at);
    if (rest.starts_with("-%}")) return after_spaces(at + 3);
    if (!begins && rest.starts_with("+%}")) return at + 3;
    if (!rest.starts_with("%}")) return 0;
    return !begins && rest.substr(2).starts_with("\n") ? at + 3 : at + 2;
  }

  void raw(size_t content) {
    advance_to(content);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      const size_t end = end_of_word_tag(tag + (sign != 0 ? 3 : 2), "endraw", false);
      if (end == 0) continue;
      push_data(tag, sign, true);
      return advance_to(end);
    }
    error("Missing end of raw directive");
  }

  void comment(size_t content) {
    const size_t close = source_.find("#}", content);
    if (close == std::string::npos) {
      if (content >= source_.size()) return advance_to(source_.size());
      error("Missing end of comment tag");
    }
    const char sign = close > content ? sign_at(close - 1) : '\0';
    size_t end = close + 2;
    if (sign == '-') end = after_spaces(end);
    if (sign == 0 && end < source_.size() && source_[end] == '\n') ++end;
    advance_to(end);
  }

  // Takes the end of the tag where it stands here outside of brackets.
  bool tag_end(char kind) {
    if (!brackets_.empty()) return false;
    const std::string_view close = kind == '{' ? "}}" : "%}";
    const char sign = sign_at(at_);
    const size_t start = at_ + (sign != 0 ? 1 : 0);
    if (std::string_view(source_).substr(start, 2) != close || (sign == '+' && kind == '{')) return false;
    size_t end = start + 2;
    if (sign == '-') end = after_spaces(end);
    if (sign == 0 && kind == '%' && end < source_.size() && source_[end] == '\n') ++end;
    push(kind == '{' ? TokenKind::PrintEnd : TokenKind::BlockEnd);
    advance_to(end);
    return true;
  }

  void token() {
    const Utf8Char c = decode_utf8(source_, at_);
    if (is_space(c.code)) return advance_to(after_spaces(at_));
    if (is_digit(source_[at_])) return number();
    if (source_[at_] == '"' || source_[at_] == '\'') return string();
    if (starts_name(c.code)) return name();
    operator_token();
  }

  static bool starts_name(uint32_t code) {
    const auto kind = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    return is_word_character(code) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC;
  }

  void name() {
    size_t end = at_;
    while (end < source_.size()) {
      const Utf8Char c = decode_utf8(source_, end);
      if (!starts_name(c.code)) break;
      end += c.bytes;
    }
    push(TokenKind::Name, source_.substr(at_, end - at_));
    advance_to(end);
  }

  void string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) error(fmt::format("unexpected char {} at {}", repr_of_char(at_), at_));
    push(TokenKind::String, resolve_escapes(std::string_view(source_).substr(at_ + 1, end - at_ - 1), line_));
    advance_to(end + 1);
  }

  std::string repr_of_char(size_t at) const {
    return fmt::format("'{}'", source_.substr(at, decode_utf8(source_, at).bytes));
  }

  // Digits with single underscores between them, from `at`; the end.
  size_t digits_end(size_t at, std::string_view allowed = "0123456789") const {
    const auto digit = [&](size_t i) {
      return i < source_.size() && allowed.find(source_[i]) != std::string_view::npos;
    };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  size_t exponent_end(size_t at) const {
    if (at >= source_.size() || (source_[at] | 0x20) != 'e') return at;
    const size_t digits = at + (sign_at(at + 1) != 0 ? 2 : 1);
    return digits < source_.size() && is_digit(source_[digits]) ? digits_end(digits) : at;
  }

  void number() {
    const size_t whole = digits_end(at_);
    size_t end = whole;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      if (whole + 1 < source_.size() && source_[whole] == '.' && is_digit(source_[whole + 1]))
        end = digits_end(whole + 1);
      end = exponent_end(end);
    }
    const bool real = end != whole;
    if (!real) end = integer_end();
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    try {
      push(TokenKind::Number, digits,
           real ? Value::real(std::strtod(digits.c_str(), nullptr))
                : Value::integer(parse_integer(digits, 0).value_or(0)));
    } catch (const Fault& fault) {
      error(fault.message);
    }
    advance_to(end);
  }

  // Where the integer here ends: 0x1F, 0o17, 0b11, 12_000, or only the zeros of 007.
  size_t integer_end() const {
    if (source_[at_] != '0') return digits_end(at_);
    const char base = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    const std::string_view digits = base == 'x'   ? "0123456789abcdefABCDEF"
                                    : base == 'o' ? "01234567"
                                    : base == 'b' ? "01"
                                                  : "";
    if (!digits.empty()) {
      const size_t end = digits_end(at_ + 2, digits);
      if (end > at_ + 2) return end;
    }
    return digits_end(at_, "0");
  }

  void operator_token() {
    static constexpr std::array<std::string_view, 25> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ","};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](auto text) { return looking_at(text); });
    if (found == kOperators.end() && source_[at_] != ';')
      error(fmt::format("unexpected char {} at {}", repr_of_char(at_), at_));
    const std::string text(found == kOperators.end() ? ";" : *found);
    balance(text[0]);
    push(TokenKind::Operator, text);
    advance_to(at_ + text.size());
  }

  void balance(char c) {
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) error(fmt::format("unexpected '{}'", c));
    const char expected = brackets_.back();
    brackets_.pop_back();
    if (expected != c) error(fmt::format("unexpected '{}', expected '{}'", c, expected));
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string brackets_;  // the closing brackets that are awaited
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!is_utf8(source)) throw SyntaxFault{1, "the source is not UTF-8"};
  return Lexer(source).run();
}

}  // namespace braid::jinja
