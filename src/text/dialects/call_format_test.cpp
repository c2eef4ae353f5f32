// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/call_format.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/dialects/answer_parser.h"
#include "text/grammar/matcher.h"
#include "text/grammar/structure.h"
#include "text/grammar/vocabularies_test.h"

namespace braid {
namespace {

const Json& tools() {
  static const Json list = Json::parse(R"([
    {"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{
      "city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]},
      "note":{"type":["string","null"]}},"required":["city"]}}},
    {"type":"function","function":{"name":"stop"}}])");
  return list;
}

std::shared_ptr<const Grammar> grammar_of(ToolForm form, const CallRule& rule, std::shared_ptr<const TokenTrie> trie) {
  return compile_structured({.kind = StructureKind::Format, .value = call_format(form, tools(), rule)},
                            std::move(trie));
}

bool matches(const CallRule& rule, std::string_view text, ToolForm form = ToolForm::Json) {
  const auto grammar = grammar_of(form, rule, trie_of({"a"}));
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

TEST(CallFormat, RequiredAnswersAreCallsAlone) {
  const CallRule any;
  EXPECT_TRUE(matches(any, kJsonCall));
  EXPECT_TRUE(matches(any, kJsonStop + "\n" + kJsonCall));
  EXPECT_FALSE(matches(any, ""));
  EXPECT_FALSE(matches(any, "Sure. " + kJsonCall));
  EXPECT_FALSE(matches(any, kJsonCall + " done"));
  EXPECT_FALSE(matches(any, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(matches({.parallel = false}, kJsonStop + "\n" + kJsonCall));
  const CallRule named{.name = "weather"};
  EXPECT_TRUE(matches(named, kJsonCall));
  EXPECT_FALSE(matches(named, kJsonStop));
}

TEST(CallFormat, FreeAnswersCallOnceAtMostWhereCallsAreNotParallel) {
  const CallRule rule{.required = false, .parallel = false};
  for (const std::string text : {"", "Any text < tool_call>", "<<tool_call"}) {
    EXPECT_TRUE(matches(rule, text)) << text;
    EXPECT_TRUE(matches(rule, text + kJsonCall)) << text;
  }
  EXPECT_FALSE(matches(rule, kJsonCall + kJsonCall));
  EXPECT_FALSE(matches(rule, "<tool_call> is a mark"));
}

TEST(CallFormat, ParametersOfTheXmlFormFollowTheSchema) {
  const auto accepts = [](const std::string& text) { return matches({}, text, ToolForm::Xml); };
  EXPECT_TRUE(accepts(kXmlCall));
  const auto call = [](const std::string& parameters) {
    return "<tool_call>\n<function=weather>\n" + parameters + "</function>\n</tool_call>";
  };
  const std::string city = "<parameter=city>\na </b>\n</parameter>\n";
  EXPECT_TRUE(accepts(call(city)));
  EXPECT_TRUE(accepts(call(city + "<parameter=unit>\nC\n</parameter>\n")));
  EXPECT_TRUE(accepts(call(city + "<parameter=note>\n\"none\"\n</parameter>\n")));
  EXPECT_FALSE(accepts(call("")));
  EXPECT_FALSE(accepts(call(city + "<parameter=unit>\nK\n</parameter>\n")));
  EXPECT_FALSE(accepts(call(city + "<parameter=days>\nmany\n</parameter>\n")));
  EXPECT_TRUE(accepts("<tool_call>\n<function=stop>\n</function>\n</tool_call>"));
}

TEST(CallFormat, WhatCannotBeAskedForIsRefused) {
  EXPECT_THROW(call_format(ToolForm::None, tools(), {}), Error);
  EXPECT_THROW(call_format(ToolForm::Json, tools(), {.name = "other"}), Error);
}

// Random tokens within the grammar are calls that the parser reads, whole and with JSON arguments.
TEST(CallFormat, WhatTheGrammarLetsThroughIsParsed) {
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
    const auto grammar = grammar_of(form, {}, trie);
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
