// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer/pattern_syntax.h"

namespace braid {
namespace {

// The cover of `text`, matches in angle brackets.
std::string shown(const Pattern& pattern, const std::string& text) {
  MatchSpace space;
  std::vector<Stretch> cover;
  pattern.cover(text, space, cover);
  std::string out;
  for (const Stretch& stretch : cover) {
    const std::string part = text.substr(stretch.span.begin, stretch.span.end - stretch.span.begin);
    out += stretch.matched ? "<" + part + ">" : part;
  }
  return out;
}

std::string error_of(const std::string& expression) {
  try {
    Pattern::regex(expression);
  } catch (const Error& error) {
    return error.what();
  }
  return "compiles";
}

TEST(Pattern, CoversTextWithMatchesAndGaps) {
  EXPECT_EQ(shown(Pattern::regex("b+"), "abbcb"), "a<bb>c<b>");
  EXPECT_EQ(shown(Pattern::regex("b"), ""), "");
  EXPECT_EQ(shown(Pattern::literal("a.b"), "a.baxb"), "<a.b>axb");
  EXPECT_EQ(shown(Pattern::regex("x*"), "a\xC3\xA9xxb"), "<>a<>\xC3\xA9<xx>b<>");
  EXPECT_EQ(shown(Pattern::literal(""), "ab"), "<>a<>b<>");
  EXPECT_EQ(shown(Pattern::regex("\\s+(?!\\S)|\\s+"), "a  b "), "a< >< >b< >");
}

TEST(Pattern, ClassesAreThoseOfUnicode) {
  EXPECT_EQ(shown(Pattern::regex("\\s"), "\xE3\x80\x80\xC2\x85\xE1\xA0\x8E"), "<\xE3\x80\x80><\xC2\x85>\xE1\xA0\x8E");
  EXPECT_EQ(shown(Pattern::regex("\\d+"), "1\xD9\xA3\xC2\xBD"), "<1\xD9\xA3>\xC2\xBD");
  EXPECT_EQ(shown(Pattern::regex("[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"), " \xD1\x8F!\xE4\xB8\xAD\n"),
            "< \xD1\x8F><!\xE4\xB8\xAD>\n");
  EXPECT_EQ(shown(Pattern::regex("(?i:'s|'LL)"), "'S'll'\xC5\xBF"), "<'S><'ll><'\xC5\xBF>");  // the long s
}

TEST(Pattern, DialectIsRewritten) {
  EXPECT_EQ(pcre2_pattern("\\s\\S[\\s\\d]"), "\\p{White_Space}\\P{White_Space}[\\p{White_Space}\\p{Nd}]");
  EXPECT_EQ(pcre2_pattern("(a)(?i)b|c"), "(?:a)(?i:b|c)");
  EXPECT_EQ(pcre2_pattern("x(a(?m)b|c)d"), "x(?:a(?s:b|c))d");
  EXPECT_EQ(pcre2_pattern("\\p{N}{1,3}+"), "(?:\\p{N}{1,3})+");
  EXPECT_EQ(pcre2_pattern("(?:ab){,2}?c{x}"), "(?:ab){0,2}?c\\{x}");
  EXPECT_EQ(pcre2_pattern("[^a[b-c]d]"), "[^ab-cd]");
  EXPECT_EQ(pcre2_pattern("\\p{Han}\\p{^Lu}\\P{Letter}"), "\\p{sc:han}\\P{Lu}\\P{L}");
  EXPECT_EQ(pcre2_pattern("\\h\\v\\u4e2d\\x41"), "[0-9A-Fa-f]\\x0b\\x{4e2d}\\x{41}");
  EXPECT_EQ(pcre2_pattern("[\\]\\-\\\"\\/]\\'"), "[\\]\\-\\\"\\/]\\'");
}

TEST(Pattern, WhatHasNoEquivalentIsRefused) {
  EXPECT_EQ(error_of("(a)\\1"), "pattern '(a)\\1', byte 5: '\\1' is not supported");
  EXPECT_EQ(error_of("[a&&b]"), "pattern '[a&&b]', byte 2: intersections of character classes are not supported");
  EXPECT_EQ(error_of("(?x)a"), "pattern '(?x)a', byte 2: this kind of group is not supported");
  EXPECT_EQ(error_of("(*FAIL)"), "pattern '(*FAIL)', byte 0: callouts are not supported");
  EXPECT_EQ(error_of("\\p{Nonsense}"), "pattern '\\p{Nonsense}': unknown property after \\P or \\p");
  for (const char* broken : {"(",        ")",        "[",     "[a",      "*",      "a|*",  "\\",  "\\p{",
                             "\\p",      "\\x{",     "\\u12", "(?",      "(?i",    "a**",  "{1}", "[b-a]",
                             "(?<=a*)b", "a{70000}", "(?~a)", "(?<n>a)", "\\k<n>", "\\Qa", "\\C", "[[:alpha:]]"}) {
    EXPECT_NE(error_of(broken), "compiles") << broken;
  }
}

// The first pattern has two ways for each letter; the second needs memory for each.
TEST(Pattern, WorkBeyondTheLimitsIsAnError) {
  const std::string text(size_t{1} << 20, 'a');
  EXPECT_THROW(shown(Pattern::regex("(?:a|a)*[bc]"), text.substr(0, 64)), Error);
  EXPECT_EQ(shown(Pattern::regex("(?:a|b)+"), text).size(), text.size() + 2);
}

}  // namespace
}  // namespace braid
