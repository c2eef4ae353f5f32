// A recursive descent over the pattern's text; anchors are then moved into the tree.
// SPDX-License-Identifier: Apache-2.0
#include "text/grammar/regex.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar/regex_classes.h"

namespace braid {
namespace {

constexpr int kDeepest = 200;
constexpr uint32_t kMostPasses = 1u << 20;

Regex characters(CodePointSet set) {
  Regex pattern{.kind = Regex::Kind::Characters};
  pattern.characters = std::move(set);
  return pattern;
}

Regex pair(Regex first, Regex second) {
  Regex pattern{.kind = Regex::Kind::Sequence};
  pattern.parts.push_back(std::move(first));
  pattern.parts.push_back(std::move(second));
  return pattern;
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : in_{text} {}

  Regex parse() {
    if (!is_utf8(in_.text)) fail("the pattern is not valid UTF-8");
    Regex pattern = parse_choice();
    if (!in_.done()) in_.refuse("unmatched ')'");
    return pattern;
  }

 private:
  Regex parse_choice() {
    if (++depth_ > kDeepest) in_.refuse("groups are nested too deeply");
    Regex choice{.kind = Regex::Kind::Choice};
    do {
      Regex parts{.kind = Regex::Kind::Sequence};
      while (!in_.done() && in_.peek() != '|' && in_.peek() != ')') parts.parts.push_back(parse_repeated());
      choice.parts.push_back(std::move(parts));
    } while (in_.take("|"));
    --depth_;
    return choice.parts.size() == 1 ? std::move(choice.parts.front()) : choice;
  }

  Regex parse_repeated() {
    Regex part = parse_single();
    bool repeated = false;
    while (const std::optional<Regex> bounds = parse_quantifier()) {
      const bool anchor = part.kind == Regex::Kind::Start || part.kind == Regex::Kind::End;
      if (repeated || anchor) in_.refuse("nothing to repeat");
      Regex repeat = *bounds;
      repeat.parts.push_back(std::move(part));
      part = std::move(repeat);
      repeated = true;
      in_.take("?");  // reluctant: the same texts match
    }
    return part;
  }

  std::optional<Regex> parse_quantifier() {
    Regex repeat{.kind = Regex::Kind::Repeat};
    const size_t before = in_.at;
    if (in_.take("*")) {
      repeat.most = kUnbounded;
    } else if (in_.take("+")) {
      repeat.least = 1;
      repeat.most = kUnbounded;
    } else if (in_.take("?")) {
      repeat.most = 1;
    } else if (in_.take("{")) {
      const std::optional<uint32_t> least = parse_count();
      const bool range = in_.take(",");
      const std::optional<uint32_t> most = range ? parse_count() : least;
      if ((!least && !most) || !in_.take("}")) {
        in_.at = before;  // a brace like any other character
        return std::nullopt;
      }
      repeat.least = least.value_or(0);
      repeat.most = most.value_or(kUnbounded);
      if (repeat.least > repeat.most) in_.refuse("the counts of {} are out of order");
    } else {
      return std::nullopt;
    }
    return repeat;
  }

  std::optional<uint32_t> parse_count() {
    std::optional<uint32_t> count;
    while (!in_.done() && in_.peek() >= '0' && in_.peek() <= '9') {
      count = count.value_or(0) * 10 + static_cast<uint32_t>(in_.next() - '0');
      if (*count > kMostPasses) in_.refuse("a count is too large");
    }
    return count;
  }

  Regex parse_single() {
    if (in_.take("(")) return parse_group();
    if (in_.take("[")) return characters(parse_class(in_));
    if (in_.take("^")) return {.kind = Regex::Kind::Start};
    if (in_.take("$")) return {.kind = Regex::Kind::End};
    if (in_.take(".")) return characters(CodePointSet::all() - CodePointSet::of_each(U"\n\r\u2028\u2029"));
    for (const char quantifier : {'*', '+', '?'}) {
      if (in_.peek() == quantifier) in_.refuse("nothing to repeat");
    }
    if (in_.take("\\")) return parse_escape();
    const uint32_t code = in_.next_code();
    return characters(CodePointSet::of(code, code));
  }

  Regex parse_escape() {
    if (in_.done()) in_.refuse("the pattern ends in a backslash");
    if (in_.take("A")) return {.kind = Regex::Kind::Start};
    if (in_.take("Z") || in_.take("z")) return {.kind = Regex::Kind::End};
    if (in_.take("b") || in_.take("B")) in_.refuse("word borders (\\b, \\B) are not supported");
    if (in_.peek() >= '1' && in_.peek() <= '9') in_.refuse("back-references are not supported");
    if (in_.take("k")) in_.refuse("back-references are not supported");
    return characters(parse_class_escape(in_));
  }

  Regex parse_group() {
    if (in_.take("?")) {
      const bool named = in_.take("P<") || (in_.peek() == '<' && in_.peek(1) != '=' && in_.peek(1) != '!');
      if (named) {
        while (!in_.done() && in_.peek() != '>') in_.next();
        in_.take(">");
      } else if (in_.peek() == '=' || in_.peek() == '!' || in_.peek() == '<') {
        in_.refuse("look-ahead and look-behind are not supported");
      } else if (!in_.take(":")) {
        in_.refuse("this kind of group is not supported");
      }
    }
    Regex inside = parse_choice();
    if (!in_.take(")")) in_.refuse("unmatched '('");
    return inside;
  }

  RegexText in_;
  int depth_ = 0;
};

bool has_anchor(const Regex& pattern) {
  if (pattern.kind == Regex::Kind::Start || pattern.kind == Regex::Kind::End) return true;
  for (const Regex& part : pattern.parts) {
    if (has_anchor(part)) return true;
  }
  return false;
}

bool may_be_empty(const Regex& pattern) {
  switch (pattern.kind) {
    case Regex::Kind::Characters:
      return false;
    case Regex::Kind::Repeat:
      return pattern.least == 0 || may_be_empty(pattern.parts.front());
    case Regex::Kind::Choice:
      for (const Regex& part : pattern.parts) {
        if (may_be_empty(part)) return true;
      }
      return false;
    case Regex::Kind::Sequence:
      for (const Regex& part : pattern.parts) {
        if (!may_be_empty(part)) return false;
      }
      return true;
    default:
      return true;
  }
}

// Puts `gap` (what may stand outside the match) before or behind every alternative that has no anchor there.
Regex open_side(Regex pattern, Regex::Kind anchor, const Regex& gap) {
  const bool front = anchor == Regex::Kind::Start;
  if (pattern.kind == anchor) return Regex{};
  if (pattern.kind == Regex::Kind::Choice) {
    for (Regex& part : pattern.parts) part = open_side(std::move(part), anchor, gap);
    return pattern;
  }
  if (pattern.kind == Regex::Kind::Sequence && !pattern.parts.empty()) {
    Regex& side = front ? pattern.parts.front() : pattern.parts.back();
    if (has_anchor(side) && side.kind != Regex::Kind::Repeat) {
      side = open_side(std::move(side), anchor, gap);
      return pattern;
    }
  }
  return front ? pair(gap, std::move(pattern)) : pair(std::move(pattern), gap);
}

}  // namespace

Regex parse_regex(std::string_view text, RegexScope scope) {
  Regex pattern = RegexParser(text).parse();
  Regex gap;
  if (scope == RegexScope::Search) {
    gap.kind = Regex::Kind::Repeat;
    gap.parts.push_back(characters(CodePointSet::all()));
    gap.most = kUnbounded;
  }
  pattern = open_side(std::move(pattern), Regex::Kind::Start, gap);
  pattern = open_side(std::move(pattern), Regex::Kind::End, gap);
  if (has_anchor(pattern)) fail("pattern '{}': an anchor in the middle is not supported", text);
  return pattern;
}

}  // namespace braid
