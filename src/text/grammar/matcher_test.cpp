// Tests of masks and matching against plain enumeration: patterns and rules over small alphabets, with random tokens.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <regex>

#include "base/error.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex.h"
#include "text/grammar/spelling.h"
#include "text/grammar/vocabularies_test.h"

namespace braid {
namespace {

std::shared_ptr<const Grammar> grammar_of_gbnf(const std::string& text, std::shared_ptr<const TokenTrie> trie) {
  Productions productions;
  const RuleId root = productions.declare("start");
  productions.define(root, read_gbnf(text, productions));
  return std::make_shared<const Grammar>(productions, std::move(trie));
}

std::shared_ptr<const Grammar> grammar_of_pattern(const std::string& text, std::shared_ptr<const TokenTrie> trie,
                                                  RegexScope scope = RegexScope::Whole) {
  Productions productions;
  const RuleId root = productions.declare("start");
  productions.define(root, Spelling(productions, SpelledAs::Text).pattern(parse_regex(text, scope)));
  return std::make_shared<const Grammar>(productions, std::move(trie));
}

bool matches(const Grammar& grammar, std::string_view text) {
  Frontier frontier(grammar.automaton());
  Frontier::Mark mark = frontier.begin();
  for (const char byte : text) mark = frontier.advance(mark, static_cast<uint8_t>(byte));
  return mark.ended;
}

// All texts over an alphabet of at most so many letters.
std::vector<std::string> all_texts(const std::string& alphabet, size_t longest) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0; texts[begin].size() < longest; ++begin) {
    for (const char c : alphabet) texts.push_back(texts[begin] + c);
  }
  return texts;
}

// The mask holds exactly the tokens that advance() takes, at each position of random texts; and after a rollback all is
// as if the tokens had not been.
void check_masks(const std::shared_ptr<const Grammar>& grammar, TestRandom& random, int walks) {
  const int32_t highest = grammar->trie().highest_id();
  std::vector<int32_t> words(static_cast<size_t>(highest) / 32 + 1), again = words;
  for (int walk = 0; walk < walks; ++walk) {
    Matcher matcher(grammar);
    std::vector<std::vector<int32_t>> masks;
    for (int step = 0; step < 24; ++step) {
      matcher.mask(words);
      std::vector<int32_t> allowed;
      for (int32_t token = 0; token <= highest; ++token) {
        Matcher probe = matcher;
        ASSERT_EQ(has_bit(words, token), probe.advance(token)) << "token " << token << " step " << step;
        if (has_bit(words, token)) allowed.push_back(token);
      }
      masks.push_back(words);
      if (allowed.empty()) break;
      ASSERT_TRUE(matcher.advance(allowed[random.below(allowed.size())]));
      if (random.below(4) == 0) {
        const auto back = static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(matcher.length())));
        matcher.rollback(back);
        masks.resize(static_cast<size_t>(matcher.length()) + 1);
        matcher.mask(again);
        ASSERT_EQ(again, masks.back());
        masks.pop_back();
      }
    }
  }
}

TEST(Matcher, PatternsMatchWhatTheStandardLibraryMatches) {
  const std::vector<std::string> patterns{"",
                                          "a",
                                          "ab|ba",
                                          "(a|b)*",
                                          "a*b+c?",
                                          "(ab){2,3}",
                                          "[ab]c{0,2}",
                                          "(a|ab)(c|bc)",
                                          "(a*)*b",
                                          "(a|b|c){1,4}",
                                          "((a|b)*c){0,2}",
                                          "a{3}",
                                          "a{2,}",
                                          "(a?){3}",
                                          "(a{0,2}b{0,2}){1,3}",
                                          "[^a]b*",
                                          "(?:a|b)c|",
                                          ".b.",
                                          "a{0,3}a{0,3}",
                                          "(a|b)*a(a|b){3}",
                                          "((a)|(b))?c",
                                          "a+?b",
                                          "(ab?)*",
                                          "(a{40,70}|b)c",
                                          "(a|b){1,90}c",
                                          "(ab|a){0,70}b",
                                          "(a{0,70}b){0,2}"};
  TestRandom random{std::mt19937_64(7)};
  const auto trie = trie_of(tokens_over("abc", random, 40));
  const std::vector<std::string> texts = all_texts("abc", 7);
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    const auto grammar = grammar_of_pattern(pattern, trie);
    const std::regex oracle(pattern);
    for (const std::string& text : texts) ASSERT_EQ(matches(*grammar, text), std::regex_match(text, oracle)) << text;
    check_masks(grammar, random, 6);
  }
}

TEST(Matcher, SearchFindsWhatTheStandardLibraryFinds) {
  const std::vector<std::string> patterns{"a",     "^a",     "a$",     "^a$",        "^(a|b)c", "(^a|b$)",
                                          "ab|^c", "(^|b)a", "a(b|$)", "^a{2}|b{2}", "",        "^"};
  const std::vector<std::string> texts = all_texts("abc", 6);
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    const auto grammar = grammar_of_pattern(pattern, trie_of({"a", "b", "c", "bc"}), RegexScope::Search);
    const std::regex oracle(pattern);
    for (const std::string& text : texts) ASSERT_EQ(matches(*grammar, text), std::regex_search(text, oracle)) << text;
  }
}

// Whether a text of balanced brackets, by the book.
bool balanced(std::string_view text) {
  std::string open;
  for (const char c : text) {
    if (c == '(' || c == '[') {
      open += c;
    } else if (open.empty() || (c == ')') != (open.back() == '(')) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

TEST(Matcher, RulesMatchWhatTheyGenerate) {
  struct Case {
    std::string rules;
    std::function<bool(const std::string&)> oracle;
  };
  const auto count = [](const std::string& text, char c) { return std::count(text.begin(), text.end(), c); };
  const std::vector<Case> cases{
      {R"G(root ::= pair*
          pair ::= "(" root ")" | "[" root "]")G",
       [](const std::string& text) { return balanced(text); }},
      // Left recursion, direct and through an empty rule.
      {R"G(root ::= root pair | ""
          pair ::= "(" root ")" | "[" root "]")G",
       [](const std::string& text) { return balanced(text); }},
      {R"G(root ::= none root "(" | "[" # comment
          none ::= "" | ")" ")")G",
       [](const std::string& text) {
         const size_t at = text.find('[');
         return at != std::string::npos && at % 2 == 0 && text.find_first_not_of(')') == at &&
                text.find_first_not_of('(', at + 1) == std::string::npos && at / 2 <= text.size() - at - 1;
       }},
      // Ambiguous in exponentially many ways.
      {R"G(root ::= root root | "(" | "[")G",
       [&](const std::string& text) { return !text.empty() && count(text, ')') + count(text, ']') == 0; }},
      {R"G(root ::= "(" root ")" | "(" root "]" | "")G",
       [&](const std::string& text) {
         const size_t half = text.size() / 2;
         return text.size() % 2 == 0 && text.substr(0, half) == std::string(half, '(') &&
                text.find_first_of("([", half) == std::string::npos;
       }},
      {R"G(root ::= ("(" | pair{2,3} | ")"){0,70}
          pair ::= "[]")G",
       [](const std::string& text) {
         std::string left = text;
         for (size_t i = 0; i < left.size();) {
           size_t run = 0;
           while (left.compare(i + 2 * run, 2, "[]") == 0) ++run;
           if (run == 1) return false;
           if (run == 0 && (left[i] == '[' || left[i] == ']')) return false;
           i += run > 1 ? 2 * run : 1;
         }
         return true;
       }},
  };
  TestRandom random{std::mt19937_64(11)};
  const auto trie = trie_of(tokens_over("()[]", random, 60));
  const std::vector<std::string> texts = all_texts("()[]", 7);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.rules);
    const auto grammar = grammar_of_gbnf(each.rules, trie);
    for (const std::string& text : texts) ASSERT_EQ(matches(*grammar, text), each.oracle(text)) << text;
    check_masks(grammar, random, 10);
  }
}

TEST(Matcher, CharactersOfSeveralBytesAreWholeOnes) {
  TestRandom random{std::mt19937_64(3)};
  const std::string alphabet =
      "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"
      "a";
  const auto grammar = grammar_of_pattern("[\xC3\xA9-\xE2\x82\xAC]{0,80}.", trie_of(tokens_over(alphabet, random, 80)));
  check_masks(grammar, random, 40);
  EXPECT_TRUE(matches(*grammar, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_FALSE(matches(*grammar,
                       "\xC3\xA9\xF0\x9F\x98\x80"
                       "a"));
  EXPECT_FALSE(matches(*grammar, "\xC3"));
}

TEST(Matcher, NothingIsAfterTheEnd) {
  const auto grammar = grammar_of_pattern("ab", trie_of({"a", "b", "ab"}));
  Matcher matcher(grammar);
  std::vector<int32_t> words(1);
  EXPECT_FALSE(matcher.advance(kTestEnd));
  ASSERT_TRUE(matcher.advance(3));
  EXPECT_TRUE(matcher.may_end() && matcher.is_over());
  ASSERT_TRUE(matcher.advance(kTestEnd));
  matcher.mask(words);
  EXPECT_EQ(words[0], 0);
  EXPECT_FALSE(matcher.advance(kTestEnd));
  matcher.rollback(1);
  matcher.mask(words);
  EXPECT_EQ(words[0], 1 << kTestEnd);
  matcher.rollback(1);
  EXPECT_FALSE(matcher.may_end());
}

TEST(Matcher, HostileGrammarsAreRefused) {
  const auto trie = trie_of({"a", "b", "ab"});
  const auto refused = [&](const std::string& text, const std::string& what) {
    try {
      grammar_of_gbnf(text, trie);
      FAIL() << "not refused: " << text.substr(0, 60);
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    }
  };
  refused("root ::= root \"a\"", "matches no text");
  refused("root ::= x", "'x'");
  refused("rot ::= \"a\"", "'root'");
  refused("root ::= " + std::string(10'000, '(') + "\"a\"" + std::string(10'000, ')'), "nested");
  refused("root ::= ([ab]* \"a\" [ab]{30})", "complex");
  refused("root ::= \"a", "line 1");
  refused("root: \"a\"", "line 1");
}

}  // namespace
}  // namespace braid
