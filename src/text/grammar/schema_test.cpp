// Tests of schemas, formats and structures: what is in, what is out, and what is refused by name.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/grammar/matcher.h"
#include "text/grammar/structure.h"
#include "text/grammar/vocabularies_test.h"

namespace braid {
namespace {

std::shared_ptr<const TokenTrie> bytes_trie() {
  static const auto trie = [] {
    std::vector<TokenTrie::Token> tokens{{kTestEnd, "<end>", true}};
    for (int byte = 0; byte < 255; ++byte) {
      tokens.push_back({static_cast<int32_t>(tokens.size()), std::string(1, static_cast<char>(byte)), false});
    }
    tokens.push_back({static_cast<int32_t>(tokens.size()), "<call>", true});
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<int32_t>{kTestEnd});
  }();
  return trie;
}

bool matches(const Grammar& grammar, std::string_view text) {
  Frontier frontier(grammar.automaton());
  Frontier::Mark mark = frontier.begin();
  for (const char byte : text) mark = frontier.advance(mark, static_cast<uint8_t>(byte));
  return mark.ended;
}

struct Texts {
  std::string schema;
  std::vector<std::string> in, out;
};

void check(const Texts& texts, StructureKind kind = StructureKind::Json, SchemaOptions options = {}) {
  SCOPED_TRACE(texts.schema);
  const auto grammar = compile_structured({kind, Json::parse(texts.schema), options}, bytes_trie());
  for (const std::string& text : texts.in) EXPECT_TRUE(matches(*grammar, text)) << text;
  for (const std::string& text : texts.out) EXPECT_FALSE(matches(*grammar, text)) << text;
}

TEST(Schema, ScalarsAreThoseAllowed) {
  check({R"({"type":"boolean"})", {"true", "false"}, {"", "null", "tru", " true"}});
  check({R"({"type":["null","integer"]})", {"null", "0", "-7", "120"}, {"-0", "01", "1.0", "\"a\""}});
  check({R"({"type":"number"})", {"0", "-0.5", "1e9", "-1.25E-3", "12345.678"}, {"1.", ".5", "00", "1e", "1e999"}});
  check({R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})",
         {"-12", "-9", "0", "9", "99", "100", "104"},
         {"-13", "-100", "105", "110", "1000", "-0"}});
  check({R"({"type":"number","exclusiveMinimum":0.25,"maximum":10.5})",
         {"0.26", "0.251", "1", "9.999", "10", "10.5", "10.50"},
         {"0.25", "0.250", "0", "10.51", "11", "-1", "1e0"}});
  check({R"({"type":"integer","multipleOf":7,"minimum":0,"maximum":50})", {"0", "7", "49"}, {"1", "56", "-7"}});
  check({R"({"type":"number","multipleOf":0.01})", {"1.25", "3", "0.5"}, {"0.125"}});
  check({R"({"enum":["a\"b",1,null,{"x":[1,2]}]})",
         {R"("a\"b")", "1", "null", R"({"x": [1, 2]})", R"({"x":[1,2]})"},
         {R"("a")", R"({"x":[1]})"}});
  check({R"({"const":"x","type":"string"})", {R"("x")"}, {"x"}});
  check({R"({"enum":["a","bcd",5],"type":"string","maxLength":2})", {R"("a")"}, {R"("bcd")", "5"}});
}

TEST(Schema, BoundsOfNumbersAreExact) {
  TestRandom random{std::mt19937_64(2)};
  for (int i = 0; i < 150; ++i) {
    const int least = static_cast<int>(random.below(300)) - 150, most = least + static_cast<int>(random.below(200));
    const bool open = random.below(2) == 0, whole = random.below(2) == 0;
    const int step = whole && random.below(3) == 0 ? 3 : 1, scale = whole ? 1 : 8;
    Json schema{{"type", whole ? "integer" : "number"}};
    schema[open ? "exclusiveMinimum" : "minimum"] = static_cast<double>(least) / scale;
    schema["maximum"] = static_cast<double>(most) / scale;
    if (step > 1) schema["multipleOf"] = step;
    SCOPED_TRACE(schema.dump());
    std::shared_ptr<const Grammar> grammar;
    try {
      grammar = compile_structured({StructureKind::Json, schema}, bytes_trie());
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "the grammar matches no text");
    }
    for (int value = -400; value <= 400; ++value) {
      const bool inside = (open ? value > least : value >= least) && value <= most && value % step == 0;
      const std::string text = whole ? std::to_string(value) : Json(static_cast<double>(value) / scale).dump();
      ASSERT_EQ(grammar != nullptr && matches(*grammar, text), inside) << text;
    }
  }
}

TEST(Schema, StringsKeepLengthsAndPatterns) {
  check({R"({"type":"string"})",
         {R"("")", R"("a\n\u00e9\ud83d\ude00é😀")"},
         {"\"\n\"", R"("\ud83d")", R"("\x")", "\"\xC3\""}});
  check({R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("é😀\u0041")", R"("\ud83d\ude00a")"},
         {R"("a")", R"("abcd")", R"("\ud83d\ude00")"}});
  check({R"({"type":"string","pattern":"^a+$"})", {R"("a")", R"("aaa")"}, {R"("")", R"("ab")"}});
  check({R"({"type":"string","pattern":"b"})", {R"("b")", R"("abc")", R"("\"b\n")"}, {R"("a")"}});
  check({R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3})",
         {R"("ab")", R"("abc")"},
         {R"("a")", R"("abcd")", R"("a1")"}});
  check({R"({"allOf":[{"pattern":"^a"},{"pattern":"z$"}],"type":"string"})",
         {R"("az")", R"("abz")"},
         {R"("a")", R"("z")"}});
  check({R"({"type":"string","format":"date"})",
         {R"("2024-02-29")", R"("1999-12-31")", R"("2000-02-29")"},
         {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")"}});
  check({R"({"type":"string","format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}});
  check({R"({"type":"string","format":"ipv6"})",
         {R"("::1")", R"("2001:db8::8a2e:370:7334")", R"("1:2:3:4:5:6:7:8")", R"("::")"},
         {R"("1:2")", R"("1:2:3:4:5:6:7:8:9")", R"("1::2::3")"}});
}

TEST(Schema, ObjectsHaveTheirPropertiesInOrder) {
  check(
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},
             "required":["b"],"additionalProperties":false})",
       {R"({"b":null})", R"({"a": 1, "b": null})", "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": true\n}"},
       {"{}", R"({"a":1})", R"({"b":null,"a":1})", R"({"b":null,})", R"({"b":null,"b":null})", R"({"b":null,"d":1})"}});
  check({R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
         {"{}", R"({"a":1})", R"({"ab":"x"})", R"({"a":1,"b":"","":"y"})"},
         {R"({"a":"x"})", R"({"b":1})", R"({"\u0061":"x"})"}});
  check({R"({"type":"object","properties":{"a":{}},"required":["z"],"additionalProperties":{"type":"null"}})",
         {R"({"z":null})", R"({"a":[],"z":null,"q":null})"},
         {R"({"z":1})", R"({"a":1})"}});
  check({R"({"type":"object","patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},
             "additionalProperties":false})",
         {"{}", R"({"x":1})", R"({"ay":7})", R"({"xy":5})"},
         {R"({"xy":4})", R"({"xy":5.5})", R"({"b":1})"}});
  check({R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"minProperties":1,
             "maxProperties":2,"additionalProperties":false})",
         {R"({"a":1})", R"({"b":2,"c":3})", R"({"a":1,"c":3})"},
         {"{}", R"({"a":1,"b":2,"c":3})"}});
  check({R"({"type":"object","additionalProperties":{"type":"null"},"maxProperties":2,
             "propertyNames":{"pattern":"^[ab]$"}})",
         {"{}", R"({"a":null})", R"({"a":null,"b":null})"},
         {R"({"c":null})", R"({"a":null,"b":null,"a":null})"}});
}

TEST(Schema, ArraysAndGroupsAndReferences) {
  check({R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1,2]", "[1, 2, 3]", "[\n  1,\n  2\n]"},
         {"[]", "[1,2,3,4]", "[1,]", "[ \n1]"}});
  check({R"({"type":"array","items":{"type":"integer"},"maxItems":1000000000})", {"[]", "[1]"}, {"[null]"}});
  check({R"({"type":"array","items":{"type":"null"},"minItems":100,"maxItems":101})", {}, {"[]", "[null]"}});
  check({R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":false})",
         {"[]", "[1]", "[1,2]"},
         {"[2]", "[1,2,3]"}});
  check({R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":0},"minItems":2})",
         {"[1,0]", "[1,0,0]"},
         {"[1]", "[0,0]"}});
  check({R"({"anyOf":[{"type":"integer","minimum":5},{"const":"x"}]})", {"5", "\"x\""}, {"4", "\"y\""}});
  check({R"({"type":"integer","anyOf":[{"minimum":10},{"maximum":3}],"allOf":[{"minimum":0}]})",
         {"0", "3", "10"},
         {"-1", "4"}});
  check({R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},
                      {"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
         {R"({"k":"a"})", R"({"k":"b"})"},
         {R"({"k":"c"})", "{}"}});
  check({R"({"$ref":"#/$defs/list","$defs":{"list":{"anyOf":[{"type":"null"},{"type":"object",
             "properties":{"next":{"$ref":"#/$defs/list"}},"required":["next"],"additionalProperties":false}]}}})",
         {"null", R"({"next":{"next":null}})"},
         {"{}", R"({"next":1})"}});
  check({R"({"allOf":[{"type":"object","properties":{"a":{"minimum":1}},"required":["a"]},
                      {"properties":{"a":{"type":"integer","maximum":2}},"additionalProperties":false}]})",
         {R"({"a":1})", R"({"a":2})"},
         {R"({"a":0})", "{}", R"({"a":1,"b":1})"}});
  check({"true", {"1", "{}", "[[],{\"a\":null}]"}, {"", "nul"}});
}

TEST(Schema, OptionsCloseObjectsAndDropSpace) {
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"array"}}})";
  check({schema, {R"({"a":[1,{}]})", "{}"}, {R"({"b":1})", R"({"a": []})"}}, StructureKind::Json,
        {.space = WhiteSpace::Compact, .closed_objects = true});
  check({schema, {R"({"b":1})"}, {}});
}

void refused(const std::string& schema, const std::string& what, StructureKind kind = StructureKind::Json) {
  try {
    compile_structured({kind, Json::parse(schema)}, bytes_trie());
    FAIL() << "not refused: " << schema.substr(0, 100);
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    EXPECT_EQ(error.kind(), ErrorKind::Input);
  }
}

TEST(Schema, WhatIsNotSupportedIsNamed) {
  refused(R"({"type":"object","properties":{"a":{"unevaluatedItems":false}}})", "$.properties.a.unevaluatedItems: ");
  refused(R"({"type":"array","items":{"not":{}}})", "$.items.not: ");
  refused(R"({"type":"array","uniqueItems":true})", "$.uniqueItems: ");
  refused(R"({"type":"string","format":"iri"})", "$.format: 'iri'");
  refused(R"J({"type":"string","pattern":"(?=a)"})J", "$.pattern: ");
  refused(R"({"patternProperties":{"?a":{"const":1}}})", "$.patternProperties.?a: ");
  refused(R"({"type":"text"})", "$.type: ");
  refused(R"({"type":"string","minLength":"2"})", "$.minLength: ");
  refused(R"({"$ref":"#/$defs/x"})", "$.$ref: there is no '#/$defs/x'");
  refused(R"({"$ref":"http://example.com/x"})", "$.$ref: only");
  refused(R"({"$ref":"#"})", "refers to itself");
  refused(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "$.oneOf: alternatives 0 and 1");
  refused(R"({"type":"number","multipleOf":0.3})", "$.multipleOf: ");
  refused(R"({"type":"object","additionalProperties":true,"minProperties":3})", "$.minProperties: ");
  refused(R"({"type":"object","required":["a"],"properties":{"a":{"$ref":"#"}}})", "matches no text");
  refused("false", "matches no text");
  refused("3", "$: expected a schema");
  refused(R"({"type":"string","pattern":"^(a|b)*a(a|b){30}$","maxLength":900})", "states");
}

TEST(Structure, FormatsPutLiteralsAndSchemasTogether) {
  const std::string tags = R"J("triggers":["<call>"],"tags":[
      {"begin":"<call>f(","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":")"},
      {"begin":"<call>g(","content":{"type":"any_text"},"end":")"}])J";
  const std::string mark = bytes_trie()->mark_specials("<call>");
  ASSERT_NE(mark, "<call>");
  check({R"({"type":"triggered_tags",)" + tags + "}",
         {"", "text", "a" + mark + "f(12)b" + mark + "g(x y)", "<call>f(no special token)"},
         {mark, mark + "f(x)", mark + "h", mark + "f(1"}},
        StructureKind::Format);
  check({R"({"type":"triggered_tags","at_least_one":true,"stop_after_first":true,)" + tags + "}",
         {mark + "f(12)", mark + "g()"},
         {"", "a" + mark + "f(1)", mark + "f(1)" + mark + "f(1)"}},
        StructureKind::Format);
  check({R"({"triggers":["<f"],"structures":[{"begin":"<f>","schema":{"const":1},"end":"</f>"}]})",
         {"", "<", "<<f>1</f><", "x<f>1</f>"},
         {"<f", "<f>2", "<fx"}},
        StructureKind::Format);
  check({R"({"type":"sequence","elements":[{"type":"const_string","value":"a"},
             {"type":"or","elements":[{"type":"regex","pattern":"b+"},
             {"type":"grammar","grammar":"root ::= \"c\""}]}]})",
         {"ab", "abb", "ac"},
         {"a", "abc"}},
        StructureKind::Format);
  check({R"({"type":"xml_parameters","json_schema":{"type":"object","required":["q"],"properties":{
             "q":{"type":"string"},"n":{"type":"integer"}}}})",
         {"<parameter=q>\na <b>\n\n</parameter>\n", "<parameter=q>\n\n</parameter>\n<parameter=n>\n3\n</parameter>\n"},
         {"", "<parameter=n>\n3\n</parameter>\n", "<parameter=q>\na\n</parameter>"}},
        StructureKind::Format);
  refused(R"({"type":"qqq"})", "$.type: 'qqq'", StructureKind::Format);
  refused(R"({"type":"sequence","elements":[{"type":"json_schema","json_schema":{"not":{}}}]})",
          "$.elements[0].json_schema: $.not", StructureKind::Format);
}

TEST(Structure, OtherKinds) {
  check({R"(["yes","no","né"])", {"yes", "no", "né"}, {"", "ye", "yesno"}}, StructureKind::Choice);
  check({R"("[ab]{2}")", {"ab"}, {"a", "xab"}}, StructureKind::Regex);
  check({R"("root ::= \"x\" root | \"\"")", {"", "xx"}, {"y"}}, StructureKind::Grammar);
  check({"null", {"{}", R"({"a": [1, {"b": null}]})"}, {"[]", "1"}}, StructureKind::JsonObject);
  refused("[]", "choice", StructureKind::Choice);
  refused("3", "regex", StructureKind::Regex);
}

TEST(Structure, TheCacheKeepsWhatIsAskedForWithinItsBytes) {
  GrammarCache cache(bytes_trie(), 20'000);
  const Structure one{StructureKind::Regex, "a+"};
  const auto first = cache.get(one);
  EXPECT_EQ(cache.get(one), first);
  for (int i = 0; i < 200; ++i) cache.get({StructureKind::Regex, "[a-z]{" + std::to_string(i + 1) + "}"});
  EXPECT_LT(cache.size(), 200u);
  EXPECT_NE(cache.get(one), first);
}

TEST(Structure, TenThousandsOfChoicesAndDeepSchemasAreBounded) {
  Json many = Json::array();
  for (int i = 0; i < 100'000; ++i) many.push_back("w" + std::to_string(i * 7919 % 1'000'003));
  try {
    const auto grammar = compile_structured({StructureKind::Choice, many}, bytes_trie());
    EXPECT_TRUE(matches(*grammar, "w7919"));
    EXPECT_FALSE(matches(*grammar, "w1"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.message();
  }
  Json deep = {{"type", "integer"}};
  for (int i = 0; i < 200; ++i) deep = {{"type", "array"}, {"items", deep}, {"maxItems", 1'000'000'000}};
  const auto grammar = compile_structured({StructureKind::Json, deep}, bytes_trie());
  EXPECT_TRUE(matches(*grammar, std::string(200, '[') + std::string(200, ']')));
}

}  // namespace
}  // namespace braid
