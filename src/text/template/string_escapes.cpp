// SPDX-License-Identifier: Apache-2.0
#include "text/template/string_escapes.h"

#include <array>
#include <charconv>

#include "base/utf8.h"
#include "text/template/lexer.h"

namespace braid::jinja {
namespace {

constexpr std::string_view kLetters = "abfnrtv\\'\"";
constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";

class Escapes {
 public:
  Escapes(std::string_view text, int line) : text_(text), line_(line) {}

  std::string run() {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        escape(text_[at_++]);
      } else {
        out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  void escape(char c) {
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      out_ += kMeanings[known];
    } else if (c >= '0' && c <= '7') {
      size_t digits = 1;
      while (digits < 3 && at_ + digits - 1 < text_.size() && text_[at_ + digits - 1] >= '0' &&
             text_[at_ + digits - 1] <= '7') {
        ++digits;
      }
      number(at_ - 1, digits, 8);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      number(at_, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
    } else if (c == 'N') {
      throw SyntaxFault{line_, "characters by name (\\N) are not supported"};
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  void number(size_t start, size_t digits, int base) {
    uint32_t code = 0;
    const std::string_view part = text_.substr(start, digits);
    const auto read = std::from_chars(part.data(), part.data() + part.size(), code, base);
    if (part.size() < digits || read.ptr != part.data() + digits || code > 0x10FFFF) {
      throw SyntaxFault{line_, fmt::format("truncated or illegal escape \"\\{}\" in a string",
                                           text_.substr(start - (base == 16 ? 1 : 0), 6))};
    }
    if (code >= 0xD800 && code <= 0xDFFF) {
      throw SyntaxFault{line_, fmt::format("the surrogate \\u{:04x} is no character", code)};
    }
    append_utf8(out_, code);
    at_ = start + digits;
  }

  std::string_view text_;
  int line_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string resolve_escapes(std::string_view text, int line) {
  if (text.find('\\') == std::string_view::npos) return std::string(text);
  return Escapes(text, line).run();
}

}  // namespace braid::jinja
