// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern_syntax.h"

#include <cctype>
#include <cstdint>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace braid {
namespace {

// What \w means inside a class; on its own it is these numbers of Latin-1, too.
constexpr std::string_view kWordInClass = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼½¾)";

// Names of general categories and of the other properties, lower case without separators, as PCRE2 knows them.
const std::map<std::string, std::string, std::less<>>& property_names() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"letter", "L"},
      {"casedletter", "L&"},
      {"uppercaseletter", "Lu"},
      {"lowercaseletter", "Ll"},
      {"titlecaseletter", "Lt"},
      {"modifierletter", "Lm"},
      {"otherletter", "Lo"},
      {"mark", "M"},
      {"combiningmark", "M"},
      {"nonspacingmark", "Mn"},
      {"spacingmark", "Mc"},
      {"enclosingmark", "Me"},
      {"number", "N"},
      {"decimalnumber", "Nd"},
      {"digit", "Nd"},
      {"letternumber", "Nl"},
      {"othernumber", "No"},
      {"symbol", "S"},
      {"mathsymbol", "Sm"},
      {"currencysymbol", "Sc"},
      {"modifiersymbol", "Sk"},
      {"othersymbol", "So"},
      {"punctuation", "P"},
      {"connectorpunctuation", "Pc"},
      {"dashpunctuation", "Pd"},
      {"openpunctuation", "Ps"},
      {"closepunctuation", "Pe"},
      {"initialpunctuation", "Pi"},
      {"finalpunctuation", "Pf"},
      {"otherpunctuation", "Po"},
      {"separator", "Z"},
      {"spaceseparator", "Zs"},
      {"lineseparator", "Zl"},
      {"paragraphseparator", "Zp"},
      {"other", "C"},
      {"control", "Cc"},
      {"format", "Cf"},
      {"surrogate", "Cs"},
      {"privateuse", "Co"},
      {"unassigned", "Cn"},
      {"any", "Any"},
      {"alpha", "Alphabetic"},
      {"alphabetic", "Alphabetic"},
      {"upper", "Uppercase"},
      {"uppercase", "Uppercase"},
      {"lower", "Lowercase"},
      {"lowercase", "Lowercase"},
      {"space", "White_Space"},
      {"whitespace", "White_Space"},
      {"emoji", "Emoji"},
      {"emojipresentation", "Emoji_Presentation"},
      {"extendedpictographic", "Extended_Pictographic"},
      {"ideographic", "Ideographic"},
  };
  return names;
}

// One pass over the pattern; `out_` is the result so far.
class Rewriter {
 public:
  explicit Rewriter(std::string_view in) : in_(in) {}

  std::string run() {
    groups_.push_back({});
    while (at_ < in_.size()) step();
    if (groups_.size() != 1) refuse("an open parenthesis is not closed");
    out_.append(groups_.back().open_options, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin = 0;         // where its text starts in out_
    size_t open_options = 0;  // "(?i)" written as "(?i:" and still to be closed
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  [[noreturn]] void refuse(const std::string& what) const { fail("pattern '{}', byte {}: {}", in_, at_, what); }

  bool ahead(std::string_view text) const { return in_.substr(at_, text.size()) == text; }

  char peek(size_t distance = 0) const { return at_ + distance < in_.size() ? in_[at_ + distance] : '\0'; }

  void copy(size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void step() {
    const char c = peek();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '*' || c == '+' || c == '?') return quantifier(1);
    if (c == '{') return brace();
    const bool is_atom = c != '|' && c != '^' && c != '$';
    const size_t begin = out_.size();
    if (c == '\\') {
      escape(false);
    } else if (c == '[') {
      character_class();
    } else {
      copy(decode_utf8(in_, at_).bytes);
    }
    atom_ = is_atom ? begin : kNone;
  }

  void open_group() {
    if (ahead("(*")) refuse("callouts are not supported");
    groups_.push_back({.begin = out_.size()});
    atom_ = kNone;
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (ahead(kind)) return copy(kind.size());
    }
    if (!ahead("(?")) {
      out_ += "(?:";
      ++at_;
      return;
    }
    options();
  }

  // "(?im-x:" opens a group; "(?im-x)" holds to the end of the group that it stands in, whose later branches belong to
  // it.
  void options() {
    const size_t end = in_.find_first_of(":)", at_);
    std::string letters;
    for (at_ += 2; at_ < end; ++at_) {
      const char letter = peek();
      if (letter != 'i' && letter != 'm' && letter != '-') refuse("this kind of group is not supported");
      letters += letter == 'm' ? 's' : letter;
    }
    if (end == std::string_view::npos) refuse("an open parenthesis is not closed");
    out_ += "(?" + letters + ":";
    if (in_[end] == ')') {
      groups_.pop_back();
      ++groups_.back().open_options;
    }
    ++at_;
  }

  void close_group() {
    if (groups_.size() < 2) refuse("a closing parenthesis has no opening one");
    out_.append(groups_.back().open_options + 1, ')');
    atom_ = groups_.back().begin;
    groups_.pop_back();
    ++at_;
  }

  // A quantifier of `length` bytes, then "?" for lazy or "+" for possessive.
  void quantifier(size_t length) {
    if (atom_ == kNone) refuse("nothing to repeat");
    copy(length);
    if (peek() == '?' || peek() == '+') copy(1);
    atom_ = kNone;
  }

  // "{n}", "{n,}", "{,m}" or "{n,m}"; anything else is an ordinary brace.
  void brace() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < in_.size() && std::isdigit(static_cast<unsigned char>(in_[end]))) ++end;
      return std::string(in_.substr(begin, end - begin));
    };
    std::string low = digits(), high;
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) ++end, high = digits();
    if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    if (atom_ == kNone) refuse("nothing to repeat");
    at_ = end + 1;
    if (low.empty()) low = "0";
    out_ += comma ? "{" + low + "," + high + "}" : "{" + low + "}";
    if (!comma && peek() == '?') refuse("'{n}?' is not supported");
    if (peek() == '?') copy(1);
    if (peek() == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    }
    atom_ = kNone;
  }

  void character_class() {
    size_t depth = 1;
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') out_ += "\\]", ++at_;
    while (depth > 0) {
      if (at_ >= in_.size()) refuse("a character class is not closed");
      if (ahead("&&")) refuse("intersections of character classes are not supported");
      if (ahead("[:") || ahead("[^")) refuse("this kind of character class is not supported");
      const char c = peek();
      if (c == '\\') {
        escape(true);
      } else if (c == '[') {
        ++depth, ++at_;
      } else if (c == ']') {
        --depth, ++at_;
      } else {
        copy(decode_utf8(in_, at_).bytes);
      }
    }
    out_ += ']';
  }

  void escape(bool in_class) {
    ++at_;
    if (at_ >= in_.size()) refuse("ends with a backslash");
    const Utf8Char c = decode_utf8(in_, at_);
    if (c.code >= 0x80 || !std::isalnum(static_cast<int>(c.code))) {
      if (c.code < 0x80) out_ += '\\';
      return copy(c.bytes);
    }
    const char letter = static_cast<char>(c.code);
    if (letter == 'p' || letter == 'P') return property(letter == 'P');
    if (letter == 'x' || letter == 'u') return code_point(letter);
    ++at_;
    if (set(letter, in_class) || (!in_class && anchor(letter))) return;
    if (std::string_view("nrtfea").find(letter) == std::string_view::npos && !(in_class && letter == 'b')) {
      refuse(fmt::format("'\\{}' is not supported", letter));
    }
    out_ += '\\';
    out_ += letter;
  }

  bool set(char letter, bool in_class) {
    const std::string word(kWord);
    switch (letter) {
      case 'd':
        out_ += "\\p{Nd}";
        return true;
      case 'D':
        out_ += "\\P{Nd}";
        return true;
      case 's':
        out_ += "\\p{White_Space}";
        return true;
      case 'S':
        out_ += "\\P{White_Space}";
        return true;
      case 'w':
        out_ += in_class ? std::string(kWordInClass) : "[" + word + "]";
        return true;
      case 'h':
        out_ += in_class ? "0-9A-Fa-f" : "[0-9A-Fa-f]";
        return true;
      case 'v':
        out_ += "\\x0b";
        return true;
      case 'W':
      case 'H':
        if (in_class) refuse(fmt::format("'\\{}' inside a character class is not supported", letter));
        out_ += letter == 'W' ? "[^" + word + "]" : "[^0-9A-Fa-f]";
        return true;
      default:
        return false;
    }
  }

  bool anchor(char letter) {
    const std::string word = "[" + std::string(kWord) + "]";
    const std::string boundary = "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
    switch (letter) {
      case 'b':
        out_ += "(?:" + boundary + ")";
        return true;
      case 'B':
        out_ += "(?!" + boundary + ")";
        return true;
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
        out_ += '\\';
        out_ += letter;
        return true;
      default:
        return false;
    }
  }

  void code_point(char letter) {
    ++at_;
    std::string digits;
    const bool braces = letter == 'x' && peek() == '{';
    const size_t most = braces ? 8 : letter == 'x' ? 2 : 4;
    if (braces) ++at_;
    while (digits.size() < most && std::isxdigit(static_cast<unsigned char>(peek()))) digits += peek(), ++at_;
    if (digits.empty() || (letter == 'u' && digits.size() != 4)) refuse("hexadecimal digits are missing");
    if (braces && peek() != '}') refuse("a closing brace is missing");
    if (braces) ++at_;
    if (letter == 'x' && !braces && std::stoul(digits, nullptr, 16) >= 0x80)
      refuse("bytes of characters are not supported");
    out_ += "\\x{" + digits + "}";
  }

  void property(bool negated) {
    ++at_;
    if (peek() != '{') refuse("a property needs braces");
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) refuse("a closing brace is missing");
    std::string name;
    for (const char c : in_.substr(at_ + 1, end - at_ - 1)) {
      if (c == '^' && name.empty()) {
        negated = !negated;
      } else if (std::isalnum(static_cast<unsigned char>(c))) {
        name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else if (c != ' ' && c != '_' && c != '-') {
        refuse("this property is not supported");
      }
    }
    if (name.empty()) refuse("a property needs a name");
    const auto known = property_names().find(name);
    if (known != property_names().end()) {
      name = known->second;
    } else if (name.size() > 2) {
      name = "sc:" + name;  // a script; an unknown one is refused when the pattern is compiled
    } else {
      name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    }
    out_ += (negated ? "\\P{" : "\\p{") + name + "}";
    at_ = end + 1;
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = kNone;  // where in out_ the last thing that can be repeated starts
  std::vector<Group> groups_;
};

}  // namespace

std::string pcre2_pattern(std::string_view oniguruma) { return Rewriter(oniguruma).run(); }

}  // namespace braid
