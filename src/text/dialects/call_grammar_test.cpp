// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/call_grammar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/dialects/answer_parser.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/matcher.h"
#include "text/grammar/vocabularies_test.h"

namespace braid {
namespace {

const Json& tools() {
  static const Json list = Json::parse(R"([
    {"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{
      "city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},"required":["city"]}}},
    {"type":"function","function":{"name":"stop"}}])");
  return list;
}

// A small stand-in for schemas: whole numbers, and objects with a city or without anything.
ExpressionId small_schema(const Json& schema, Productions& productions) {
  if (schema.value("type", "") == "integer") return read_gbnf("root ::= [0-9]+", productions);
  if (!schema.contains("properties")) return productions.bytes("{}");
  return read_gbnf("root ::= \"{\\\"city\\\": \\\"\" [A-Za-z<>/_]* \"\\\"}\"", productions);
}

std::shared_ptr<const Grammar> grammar_of(const CallRule& rule, std::shared_ptr<const TokenTrie> trie) {
  Productions productions;
  const RuleId root = productions.declare("start");
  productions.define(root, call_expression(rule, small_schema, productions));
  return std::make_shared<const Grammar>(productions, std::move(trie));
}

bool matches(const CallRule& rule, std::string_view text) {
  const auto grammar = grammar_of(rule, trie_of({"a"}));
  Frontier frontier(grammar->automaton());
  Frontier::Mark mark = frontier.begin();
  for (const char byte : text) mark = frontier.advance(mark, static_cast<uint8_t>(byte));
  return mark.ended;
}

const std::string kJsonCall =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
const std::string kJsonStop = "<tool_call>\n{\"name\": \"stop\", \"arguments\": {}}\n</tool_call>";
const std::string kXmlCall =
    "<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "</function>\n</tool_call>";

TEST(CallGrammar, RequiredAnswersAreCallsAlone) {
  const CallRule any{.tools = tools()};
  EXPECT_TRUE(matches(any, kJsonCall));
  EXPECT_TRUE(matches(any, kJsonStop + "\n" + kJsonCall));
  EXPECT_FALSE(matches(any, ""));
  EXPECT_FALSE(matches(any, "Sure. " + kJsonCall));
  EXPECT_FALSE(matches(any, kJsonCall + " done"));
  EXPECT_FALSE(matches(any, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(matches({.tools = tools(), .parallel = false}, kJsonStop + "\n" + kJsonCall));
  const CallRule named{.tools = tools(), .name = "weather"};
  EXPECT_TRUE(matches(named, kJsonCall));
  EXPECT_FALSE(matches(named, kJsonStop));
}

TEST(CallGrammar, FreeAnswersCallOnceAtMostWhereCallsAreNotParallel) {
  const CallRule rule{.tools = tools(), .required = false, .parallel = false};
  for (const std::string text : {"", "Any text < tool_call>", "<<tool_call"}) {
    EXPECT_TRUE(matches(rule, text)) << text;
    EXPECT_TRUE(matches(rule, text + kJsonCall)) << text;
  }
  EXPECT_FALSE(matches(rule, kJsonCall + kJsonCall));
  EXPECT_FALSE(matches(rule, "<tool_call> is a mark"));
}

TEST(CallGrammar, ParametersOfTheXmlFormFollowTheSchema) {
  const CallRule rule{.form = ToolForm::Xml, .tools = tools()};
  EXPECT_TRUE(matches(rule, kXmlCall));
  const auto call = [](const std::string& parameters) {
    return "<tool_call>\n<function=weather>\n" + parameters + "</function>\n</tool_call>";
  };
  const std::string city = "<parameter=city>\na </b>\n</parameter>\n";
  EXPECT_TRUE(matches(rule, call(city)));
  EXPECT_TRUE(matches(rule, call(city + "<parameter=unit>\nC\n</parameter>\n")));
  EXPECT_FALSE(matches(rule, call("")));
  EXPECT_FALSE(matches(rule, call(city + "<parameter=unit>\nK\n</parameter>\n")));
  EXPECT_FALSE(matches(rule, call(city + "<parameter=days>\nmany\n</parameter>\n")));
  EXPECT_TRUE(matches(rule, "<tool_call>\n<function=stop>\n</function>\n</tool_call>"));
}

TEST(CallGrammar, WhatCannotBeAskedForIsRefused) {
  Productions productions;
  EXPECT_THROW(call_expression({.form = ToolForm::None, .tools = tools()}, small_schema, productions), Error);
  EXPECT_THROW(call_expression({.tools = tools(), .name = "other"}, small_schema, productions), Error);
}

// Random tokens within the grammar are calls that the parser reads, whole and with JSON arguments.
TEST(CallGrammar, WhatTheGrammarLetsThroughIsParsed) {
  TestRandom random{std::mt19937_64(17)};
  std::string bytes;
  for (char c = ' '; c < 127; ++c) bytes += c;
  std::vector<std::string> texts = tokens_over("\n<>/ae_", random, 60);
  for (const char c : bytes + "\n") texts.emplace_back(1, c);
  for (const char* text : {"<tool_call>", "</tool_call>", "</parameter>", "<parameter=", "{\"name\": \"", "city"})
    texts.emplace_back(text);
  const auto trie = trie_of(texts);
  int calls = 0;
  for (const ToolForm form : {ToolForm::Json, ToolForm::Xml}) {
    const auto grammar = grammar_of({.form = form, .tools = tools()}, trie);
    std::vector<int32_t> words(static_cast<size_t>(trie->highest_id()) / 32 + 1);
    for (int round = 0; round < 200; ++round) {
      Matcher matcher(grammar);
      std::string text;
      while (matcher.length() < 400 && !(matcher.may_end() && random.below(2) == 0)) {
        matcher.mask(words);
        std::vector<int32_t> allowed;
        for (int32_t token = 1; token <= trie->highest_id(); ++token)
          if (has_bit(words, token)) allowed.push_back(token);
        const int32_t token = allowed[random.below(allowed.size())];
        ASSERT_TRUE(matcher.advance(token));
        text += trie->bytes(token);
      }
      if (!matcher.may_end()) continue;
      AnswerParserOptions options{.tools = tools()};
      options.dialect.tools = form;
      AnswerParser parser(options);
      std::string arguments;
      std::vector<AnswerPiece> pieces = parser.push(text);
      for (AnswerPiece& piece : parser.finish(false)) pieces.push_back(std::move(piece));
      for (const AnswerPiece& piece : pieces) {
        ASSERT_NE(piece.kind, AnswerPiece::Kind::Content) << text;
        if (piece.kind == AnswerPiece::Kind::ToolArguments) arguments += piece.text;
        if (piece.kind != AnswerPiece::Kind::ToolEnd) continue;
        ASSERT_TRUE(parse_json(std::exchange(arguments, {}), text).is_object());
        ++calls;
      }
      ASSERT_EQ(parser.malformed(), 0) << text;
    }
  }
  EXPECT_GT(calls, 100);
}

}  // namespace
}  // namespace braid
