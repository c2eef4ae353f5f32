// A recursive descent over the rules.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/gbnf.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/spelling.h"

namespace braid {
namespace {

constexpr int kDeepest = 200;
constexpr uint32_t kMostPasses = 1u << 20;

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; }

class GbnfReader {
 public:
  GbnfReader(std::string_view text, Productions& productions)
      : text_(text), productions_(productions), spelling_(productions, SpelledAs::Text) {}

  ExpressionId read() {
    if (!is_utf8(text_)) fail("the grammar is not valid UTF-8");
    skip_space();
    while (!done()) {
      const std::string name = read_name();
      skip_space();
      if (name.empty() || !take("::=")) refuse("expected a rule: name ::= ...");
      Rule& rule = rule_of(name);
      if (rule.defined) refuse(fmt::format("rule '{}' is defined twice", name));
      rule.defined = true;
      skip_space();
      productions_.define(rule.id, read_choice());
    }
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined) fail("the grammar uses rule '{}', which it does not define", name);
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) fail("the grammar has no rule 'root'");
    return productions_.call(root->second.id);
  }

 private:
  struct Rule {
    RuleId id = 0;
    bool defined = false;
  };

  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    fail("grammar, line {}: {}", 1 + std::count(before.begin(), before.end(), '\n'), what);
  }

  void skip_space() {
    while (!done()) {
      if (peek() == '#') {
        while (!done() && peek() != '\n') ++at_;
      } else if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string read_name() {
    const size_t begin = at_;
    while (!done() && is_name(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Rule& rule_of(const std::string& name) {
    const auto [rule, is_new] = rules_.try_emplace(name);
    if (is_new) rule->second.id = productions_.declare(name);
    return rule->second;
  }

  // A name that a definition follows begins the next rule.
  bool at_definition() {
    const size_t before = at_;
    const bool name = !read_name().empty();
    skip_space();
    const bool definition = name && take("::=");
    at_ = before;
    return definition;
  }

  ExpressionId read_choice() {
    if (++depth_ > kDeepest) refuse("groups are nested too deeply");
    std::vector<ExpressionId> ways;
    do {
      skip_space();
      std::vector<ExpressionId> parts;
      while (!done() && peek() != '|' && peek() != ')' && !at_definition()) {
        parts.push_back(read_repeated());
        skip_space();
      }
      ways.push_back(productions_.sequence(std::move(parts)));
    } while (take("|"));
    --depth_;
    return productions_.choice(std::move(ways));
  }

  ExpressionId read_repeated() {
    ExpressionId part = read_single();
    while (true) {
      skip_space();
      if (take("*")) {
        part = productions_.repeat(part, 0);
      } else if (take("+")) {
        part = productions_.repeat(part, 1);
      } else if (take("?")) {
        part = productions_.optional(part);
      } else if (take("{")) {
        part = read_counts(part);
      } else {
        return part;
      }
    }
  }

  ExpressionId read_counts(ExpressionId part) {
    skip_space();
    const std::optional<uint32_t> least = read_count();
    const bool range = take(",");
    skip_space();
    const std::optional<uint32_t> most = range ? read_count() : least;
    if ((!least && !most) || !take("}")) refuse("expected {m}, {m,}, {,n} or {m,n}");
    if (least.value_or(0) > most.value_or(kUnbounded)) refuse("the counts of {} are out of order");
    return productions_.repeat(part, least.value_or(0), most.value_or(kUnbounded));
  }

  std::optional<uint32_t> read_count() {
    std::optional<uint32_t> count;
    while (!done() && std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      count = count.value_or(0) * 10 + static_cast<uint32_t>(text_[at_++] - '0');
      if (*count > kMostPasses) refuse("a count is too large");
    }
    skip_space();
    return count;
  }

  ExpressionId read_single() {
    if (take("(")) {
      const ExpressionId inside = read_choice();
      if (!take(")")) refuse("unmatched '('");
      return inside;
    }
    if (take("\"")) return read_literal();
    if (take("[")) return read_class();
    if (take(".")) return spelling_.characters(CodePointSet::all());
    const std::string name = read_name();
    if (name.empty()) refuse(fmt::format("unexpected '{}'", to_valid_utf8(text_.substr(at_, 1))));
    return productions_.call(rule_of(name).id);
  }

  uint32_t read_hexadecimal(int digits) {
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      if (std::isxdigit(static_cast<unsigned char>(peek())) == 0) refuse("a hexadecimal digit is missing");
      code = code * 16 + static_cast<uint32_t>(peek() <= '9' ? peek() - '0' : (peek() | 0x20) - 'a' + 10);
    }
    return code;
  }

  uint32_t read_character() {
    if (take("\\")) {
      static const std::map<char, uint32_t> kControls{{'n', '\n'}, {'r', '\r'}, {'t', '\t'}};
      if (take("x")) return read_hexadecimal(2);
      if (take("u")) return read_hexadecimal(4);
      if (take("U")) return read_hexadecimal(8);
      if (const auto control = kControls.find(peek()); control != kControls.end()) {
        ++at_;
        return control->second;
      }
      if (done() || std::isalnum(static_cast<unsigned char>(peek())) != 0) refuse("this escape is not supported");
    }
    const Utf8Char character = decode_utf8(text_, at_);
    at_ += character.bytes;
    return character.code;
  }

  ExpressionId read_literal() {
    std::string literal;
    while (!take("\"")) {
      if (done() || peek() == '\n') refuse("unmatched '\"'");
      const uint32_t code = read_character();
      if (!CodePointSet::all().contains(code)) refuse("there is no such character");
      append_utf8(literal, code);
    }
    return productions_.bytes(literal);
  }

  ExpressionId read_class() {
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (!take("]")) {
      if (done()) refuse("unmatched '['");
      CodePointRange range;
      range.first = range.last = read_character();
      if (peek() == '-' && text_.substr(at_, 2) != "-]") {
        ++at_;
        if (done()) refuse("unmatched '['");
        range.last = read_character();
        if (range.last < range.first) refuse("a range in [] is out of order");
      }
      ranges.push_back(range);
    }
    const CodePointSet set(std::move(ranges));
    return spelling_.characters(negated ? CodePointSet::all() - set : set);
  }

  std::string_view text_;
  Productions& productions_;
  Spelling spelling_;
  std::map<std::string, Rule> rules_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ExpressionId read_gbnf(std::string_view text, Productions& productions) { return GbnfReader(text, productions).read(); }

}  // namespace braid
