// SPDX-License-Identifier: Apache-2.0
#include "text/dialects/answer_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "text/template/chat_context.h"

namespace braid {
namespace {

using Kind = AnswerPiece::Kind;

const Json& tools() {
  static const Json list = Json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"type":"object",
    "properties":{"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},
    "o":{"type":"object"},"a":{"type":"array","items":{"type":"string"}},"z":{"type":"null"},
    "si":{"type":["string","integer"]},"any":{}, "ref":{"$ref":"#/$defs/text"},"e":{"enum":["x","y"]}},
    "$defs":{"text":{"type":"string"}}}}}])");
  return list;
}

// One line for all pieces: R(thoughts) C(text) T(index name arguments), with "~" after a call that was cut.
std::string shown(const std::vector<AnswerPiece>& pieces) {
  std::string out;
  Kind last = Kind::ToolEnd;
  for (const AnswerPiece& piece : pieces) {
    if (piece.kind == Kind::ToolBegin) {
      out += fmt::format("T({} {} ", piece.tool, piece.text);
    } else if (piece.kind == Kind::ToolEnd) {
      out += piece.whole ? ")" : "~)";
    } else if (piece.kind == last || piece.kind == Kind::ToolArguments) {
      out.insert(out.size() - (piece.kind == last && last != Kind::ToolArguments ? 1 : 0), piece.text);
    } else {
      out += fmt::format("{}({})", piece.kind == Kind::Reasoning ? "R" : "C", piece.text);
    }
    last = piece.kind;
  }
  return out;
}

std::vector<AnswerPiece> parse(const AnswerParserOptions& options, const std::vector<std::string>& texts, bool cut) {
  AnswerParser parser(options);
  std::vector<AnswerPiece> out;
  for (const std::string& text : texts)
    for (AnswerPiece& piece : parser.push(text)) out.push_back(std::move(piece));
  for (AnswerPiece& piece : parser.finish(cut)) out.push_back(std::move(piece));
  return out;
}

AnswerParserOptions options_of(ToolForm form, ReasoningStart start = ReasoningStart::Unopened) {
  return {.dialect = {.reasoning = ReasoningMarks{}, .tools = form}, .start = start, .tools = tools(), .id_key = 7};
}

struct Case {
  const char* text;
  const char* pieces;
  ReasoningStart start = ReasoningStart::Unopened;
};

const Case kJsonCases[] = {
    {"<think>\nhmm  so\n</think>\n\nyes < no ", "R(hmm  so)C(yes < no )"},
    {"\n12 + 3\n</think>\n\n15", "R(12 + 3)C(15)", ReasoningStart::Open},
    {"</think>\n\nriver", "C(river)", ReasoningStart::Open},
    {"<think>again</think>x", "R(again)C(x)", ReasoningStart::Open},
    {"<think>\n\n</think>\n\nriver", "C(river)"},
    {"never closed <", "R(never closed <)", ReasoningStart::Open},
    {"\n\n plain", "C(plain)", ReasoningStart::Closed},
    {" continues", "C( continues)", ReasoningStart::Answering},
    {"a </think> b </tool_call> c", "C(abc)"},
    {"no <tool_call at <thin all", "C(no <tool_call at <thin all)"},
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>", "T(0 f {\"s\": \"x\"})"},
    {"Look:\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"n\":1.50,\"b\":true}}</tool_call>\n and\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>\n done\n",
     "C(Look:)T(0 f {\"n\":1.50,\"b\":true})C(and)T(1 g {})C(done\n)"},
    {"<tool_call>{\"arguments\": {\"s\": \"</tool_call>\"}, \"name\": \"f\"}</tool_call>",
     "T(0 f {\"s\": \"</tool_call>\"})"},
    {"<tool_call>{\"name\": \"f\"}</tool_call>", "T(0 f {})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": null, \"id\": 7}</tool_call>", "T(0 f {})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"s\\\": 1}\"}</tool_call>", "T(0 f {\"s\": 1})"},
    {"<tool_call>{\"name\": \"f\", \"parameters\": {\"s\": 1}}\n{\"name\": \"g\"}</tool_call>",
     "T(0 f {\"s\": 1})T(1 g {})"},
    {"hm <tool_call>{\"name\": \"f\"}</tool_call> on", "R(hm)T(0 f {})C(on)", ReasoningStart::Open},
    {"hm <tool_call> is a mark </think> so", "R(hmis a mark)C(so)", ReasoningStart::Open},
    // Mended.
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"a\nb\\d\", \"b\": True, }}</tool_call>",
     "T(0 f {\"s\": \"a\\nb\\\\d\", \"b\": true})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": 1}\n</tool_call>x", "T(0 f {\"s\": 1})C(x)"},
    // Malformed: nothing is lost, and arguments stay JSON.
    {"<tool_call>f(1)</tool_call>after", "C(f(1)after)"},
    {"<tool_call>{\"nome\": 1}</tool_call>", "C({\"nome\": 1})"},
    {"<tool_call>{\"name\": 5}</tool_call>", "C({\"name\": 5})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "T(0 f {})C(]})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": 1, \"t\": oops}}</tool_call>x",
     "T(0 f {\"s\": 1})C(, \"t\": oops}}x)"},
    {"<tool_call>{\"na", "C({\"na)"},
    {"<tool_call></tool_call>", ""},
};

const Case kXmlCases[] = {
    {"<tool_call>\n<function=f>\n<parameter=s>\n1\n</parameter>\n<parameter=n>\n1\n</parameter>\n</function>\n</"
     "tool_call>",
     "T(0 f {\"s\": \"1\", \"n\": 1})"},
    {"Go.\n<tool_call><function=f><parameter=s>a \"b\"\n\n</parameter></function></tool_call> then",
     "C(Go.)T(0 f {\"s\": \"a \\\"b\\\"\\n\"})C(then)"},
    {"<tool_call><function=f></function></tool_call>", "T(0 f {})"},
    {"<function=f>\n<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>", "T(0 f {\"b\": true})"},
    {"<tool_call><function=f><parameter=s>x</parameter> y</parameter></function></tool_call>",
     "T(0 f {\"s\": \"x</parameter> y\"})"},
    {"<tool_call><function=f><parameter=s>x</parameter></tool_call>z", "T(0 f {\"s\": \"x\"})C(z)"},
    {"<tool_call><function=f><parameter=s>\nx\n</function>\n</tool_call>z", "T(0 f {\"s\": \"x\"})C(z)"},
    {"<tool_call><function=f><parameter=s>x</parameter></function><function=g></function></tool_call>",
     "T(0 f {\"s\": \"x\"})T(1 g {})"},
    {"<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}}</tool_call>", "T(0 f {\"s\": \"x\"})"},
    {"<tool_call><function=f>junk</function></tool_call>", "T(0 f {})C(junk</function>)"},
    {"<tool_call><function=f\n></tool_call>", "C(f\n>)"},
    {"<tool_call><function=f><parameter=s>never ends", "T(0 f {\"s\": \"never ends\"})"},
    {"<tool_call><function=f><parameter=i>4</parameter>\n", "T(0 f {\"i\": 4})"},
};

void expect_everywhere(const AnswerParserOptions& options, const std::string& text, const std::string& expected) {
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      const auto pieces =
          parse(options, {text.substr(0, first), text.substr(first, second - first), text.substr(second)}, false);
      ASSERT_EQ(shown(pieces), expected) << text << " cut at " << first << " " << second;
    }
  }
}

TEST(AnswerParser, EverySplitPointGivesTheSamePiecesWithoutMarks) {
  for (const Case& c : kJsonCases) expect_everywhere(options_of(ToolForm::Json, c.start), c.text, c.pieces);
  for (const Case& c : kXmlCases) expect_everywhere(options_of(ToolForm::Xml, c.start), c.text, c.pieces);
}

TEST(AnswerParser, InAnAnswerThatIsHeldToAFormMarksAreText) {
  const Case cases[] = {{"{\"a\": \"<think>b</think>\"}", "C({\"a\": \"<think>b</think>\"})"},
                        {"{\"a\": \"<think>\"}", "C({\"a\": \"<think>\"})", ReasoningStart::Closed},
                        {"hm</think>\n\n{\"a\": \"<think>\"}", "R(hm)C({\"a\": \"<think>\"})", ReasoningStart::Open},
                        {"<think>hm</think>\n{\"a\": \"<think></think>\"}", "R(hm)C({\"a\": \"<think></think>\"})"},
                        {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
                         "C(<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>)", ReasoningStart::Closed},
                        {"a</think><function=f>", "C(a</think><function=f>)", ReasoningStart::Answering}};
  for (const ToolForm form : {ToolForm::None, ToolForm::Json, ToolForm::Xml})
    for (const Case& item : cases) {
      AnswerParserOptions options = options_of(form, item.start);
      options.held = true;
      const std::string text = item.text;
      EXPECT_EQ(shown(parse(options, {text}, false)), item.pieces);
      for (size_t cut = 0; cut <= text.size(); ++cut)
        EXPECT_EQ(shown(parse(options, {text.substr(0, cut), text.substr(cut)}, false)), item.pieces) << cut;
    }
}

TEST(AnswerParser, ArgumentsStreamAsTheyCome) {
  AnswerParser json(options_of(ToolForm::Json));
  EXPECT_EQ(shown(json.push("<tool_call>\n{\"name\": \"f\", ")), "T(0 f ");
  EXPECT_EQ(shown(json.push("\"arguments\": {\"s\": \"Par")), "{\"s\": \"Par");
  EXPECT_EQ(shown(json.push("is <")), "is <");
  AnswerParser xml(options_of(ToolForm::Xml));
  EXPECT_EQ(shown(xml.push("<tool_call>\n<function=f>")), "T(0 f ");
  EXPECT_EQ(shown(xml.push("<parameter=s>\nPar")), "{\"s\": \"Par");
  EXPECT_EQ(shown(xml.push("is </pa")), "is ");
  EXPECT_EQ(shown(xml.push("ge")), "</page");
}

TEST(AnswerParser, OnlyWhatMayBecomeAMarkWaits) {
  AnswerParser parser(options_of(ToolForm::Json));
  EXPECT_EQ(shown(parser.push("a <tool")), "C(a)");
  EXPECT_EQ(shown(parser.push("x")), "C( <toolx)");
  AnswerParser plain(options_of(ToolForm::None));
  EXPECT_EQ(shown(plain.push("a \n<tool_call>")), "C(a \n<tool_call>)");
}

TEST(AnswerParser, CutsLeaveACallAsItIs) {
  const auto cut = [](ToolForm form, const std::string& text) { return shown(parse(options_of(form), {text}, true)); };
  EXPECT_EQ(cut(ToolForm::Json, "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"Par"), "T(0 f {\"s\": \"Par~)");
  EXPECT_EQ(cut(ToolForm::Xml, "<tool_call><function=f><parameter=s>\nPar"), "T(0 f {\"s\": \"Par~)");
  EXPECT_EQ(cut(ToolForm::Json, "<tool_call>{\"name\": \"f"), "C({\"name\": \"f)");
  EXPECT_EQ(cut(ToolForm::Json, "<tool_call>{\"name\": \"f\", \"arguments\": {}}"), "T(0 f {})");
}

TEST(AnswerParser, IdsAreOfTheKeyAndTheCall) {
  const std::string text = "<tool_call>{\"name\":\"f\"}</tool_call><tool_call>{\"name\":\"f\"}</tool_call>";
  AnswerParserOptions options = options_of(ToolForm::Json);
  const auto ids = [&] {
    const auto pieces = parse(options, {text}, false);
    return std::pair(pieces.at(0).id, pieces.at(3).id);
  };
  const auto first = ids();
  EXPECT_EQ(first, ids());
  EXPECT_NE(first.first, first.second);
  options.id_key = 8;
  EXPECT_NE(first.first, ids().first);
  EXPECT_TRUE(first.first.starts_with("call_"));
  EXPECT_EQ(first.first.size(), 29u);
}

TEST(AnswerParser, ValuesOfTheXmlFormAreTypedByTheSchema) {
  const auto value = [](const std::string& key, const std::string& text) {
    const auto pieces = parse(
        options_of(ToolForm::Xml),
        {"<tool_call><function=f><parameter=" + key + ">\n" + text + "\n</parameter></function></tool_call>"}, false);
    return pieces.at(1).text.substr(key.size() + 5, pieces.at(1).text.size() - key.size() - 6);
  };
  EXPECT_EQ(value("s", "12"), R"("12")");
  EXPECT_EQ(value("ref", "true"), R"("true")");
  EXPECT_EQ(value("e", "x"), R"("x")");
  EXPECT_EQ(value("n", "12.0"), "12.0");
  EXPECT_EQ(value("n", "12345678901234567890123"), "12345678901234567890123");
  EXPECT_EQ(value("i", "many"), R"("many")");
  EXPECT_EQ(value("b", "False"), "false");
  EXPECT_EQ(value("o", "{\"k\": [1, \"a\nb\"]}"), R"({"k": [1, "a\nb"]})");
  EXPECT_EQ(value("a", "[\"p\"]"), R"(["p"])");
  EXPECT_EQ(value("a", "p, q"), R"("p, q")");
  EXPECT_EQ(value("z", "None"), "null");
  EXPECT_EQ(value("si", "7"), "7");
  EXPECT_EQ(value("si", "\"7\""), R"("7")");
  EXPECT_EQ(value("si", "seven"), R"("seven")");
  EXPECT_EQ(value("s", "\"7\""), R"("\"7\"")");
  EXPECT_EQ(value("any", "[1]"), "[1]");
  EXPECT_EQ(value("any", "free text"), R"("free text")");
  EXPECT_EQ(value("unknown", "1e5"), "1e5");
  EXPECT_EQ(value("unknown", "NaN"), R"("NaN")");
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  size_t below(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(engine_); }
  std::string text(size_t most) {
    static const char* const parts[] = {"a",  "<",      ">",          "\"",      "\\",          "\n", " ",     "{",
                                        "}",  "</",     "think",      "<tool_",  "</tool_call", "[",  ",",     ":",
                                        "\t", "\u00e9", "\U0001F600", "</param", "<function",   "1",  "\\u12", "'"};
    std::string out;
    for (size_t i = below(most + 1); i > 0; --i) out += parts[below(std::size(parts))];
    return out;
  }
  Json value(int depth) {
    switch (below(depth == 0 ? 5 : 7)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return static_cast<int>(below(2000)) - 1000;
      case 3:
        return static_cast<double>(below(1000)) / 8;
      case 4:
        return text(8);
      case 5: {
        Json out = Json::array();
        for (size_t i = below(4); i > 0; --i) out.push_back(value(depth - 1));
        return out;
      }
      default: {
        Json out = Json::object();
        for (size_t i = below(4); i > 0; --i) out[text(3)] = value(depth - 1);
        return out;
      }
    }
  }

 private:
  std::mt19937 engine_;
};

// The calls of pieces as [{"name", "arguments"}]; an Error where arguments are not JSON.
Json calls_of(const std::vector<AnswerPiece>& pieces) {
  Json out = Json::array();
  std::vector<std::string> arguments;
  for (const AnswerPiece& piece : pieces) {
    if (piece.kind == Kind::ToolBegin) {
      out.push_back({{"name", piece.text}});
      arguments.emplace_back();
    }
    if (piece.kind == Kind::ToolArguments) arguments.back() += piece.text;
  }
  for (size_t i = 0; i < arguments.size(); ++i) out[i]["arguments"] = parse_json(arguments[i], "arguments");
  return out;
}

std::vector<std::string> random_pieces(const std::string& text, Random& random) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1 + random.below(9);
    while (at + length < text.size() && incomplete_utf8_tail(text.substr(0, at + length)) != 0) ++length;
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

// Renders an assistant's message through a template, and returns what stands between the generation prompt and the end
// of the turn.
std::string rendered_answer(const ChatTemplate& chat_template, const Json& message) {
  ChatInput input{.messages = Json::parse(R"([{"role":"user","content":"hi"}])"), .tools = tools()};
  input.messages.push_back(message);
  input.add_generation_prompt = false;
  const std::string text = render_chat(chat_template, input);
  const std::string start = "<|im_start|>assistant\n";
  const size_t begin = text.rfind(start) + start.size();
  return text.substr(begin, text.rfind("<|im_end|>") - begin);
}

TEST(AnswerParser, WhatTheTemplateRendersIsParsedBack) {
  const std::pair<const char*, ToolForm> templates[] = {
      {"/models/pocket/chat_template.jinja", ToolForm::Json},
      {"/tests/template_cases/styles/xml_tools_coder.jinja", ToolForm::Xml}};
  for (const auto& [file, form] : templates) {
    const ChatTemplate chat_template(read_file(BRAID_SOURCE_DIR + std::string(file)), file);
    EXPECT_EQ(dialect_of_template(chat_template.source()).tools, form);
    Random random(11);
    for (int round = 0; round < 500; ++round) {
      Json calls = Json::array(), expected = Json::array();
      for (size_t i = 1 + random.below(3); i > 0; --i) {
        Json arguments = Json::object();
        if (random.below(4) > 0) arguments["s"] = random.text(12);
        if (random.below(2) > 0) arguments["n"] = static_cast<double>(random.below(100)) / 4;
        if (random.below(2) > 0) arguments["b"] = random.below(2) == 0;
        if (random.below(2) > 0) arguments["o"] = Json{{"k", random.value(2)}};
        if (random.below(2) > 0) arguments["a"] = Json::array({random.value(2), random.text(5)});
        if (random.below(4) == 0) arguments["z"] = nullptr;
        expected.push_back({{"name", "f"}, {"arguments", arguments}});
        calls.push_back({{"type", "function"}, {"function", expected.back()}});
      }
      const std::string text =
          rendered_answer(chat_template, {{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}});
      ASSERT_EQ(calls_of(parse(options_of(form), random_pieces(text, random), false)), expected) << text;
    }
  }
}

TEST(AnswerParser, AnyTextGivesTheSamePiecesHoweverItIsCutAndArgumentsAreJson) {
  static const char* const parts[] = {"<think>",
                                      "</think>",
                                      "<tool_call>",
                                      "</tool_call>",
                                      "{\"name\": \"f\", ",
                                      "\"arguments\": {",
                                      "\"s\": ",
                                      "}}",
                                      "<function=f>",
                                      "<parameter=s>",
                                      "</parameter>",
                                      "</function>",
                                      "\n",
                                      " word ",
                                      "\"x\"",
                                      ", ",
                                      "}",
                                      "<para"};
  Random random(5);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t i = random.below(14); i > 0; --i)
      text += random.below(4) == 0 ? random.text(3) : parts[random.below(std::size(parts))];
    const auto options = options_of(random.below(2) == 0 ? ToolForm::Json : ToolForm::Xml,
                                    random.below(2) == 0 ? ReasoningStart::Open : ReasoningStart::Unopened);
    const auto whole = parse(options, {text}, false);
    ASSERT_EQ(shown(parse(options, random_pieces(text, random), false)), shown(whole)) << text;
    ASSERT_NO_THROW(calls_of(whole)) << text;
    for (const AnswerPiece& piece : whole) {
      if (piece.kind != Kind::Content) continue;
      for (const char* mark : {"<think>", "</think>", "<tool_call>"})
        ASSERT_EQ(piece.text.find(mark), std::string::npos) << text;
    }
  }
}

TEST(AnswerParser, TextWithoutMarksComesBackAsItIs) {
  Random random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string text = "x" + random.text(30);
    if (text.find("<tool_call>") != std::string::npos || text.find("<think>") != std::string::npos ||
        text.find("</think>") != std::string::npos || text.find("</tool_call>") != std::string::npos)
      continue;
    ASSERT_EQ(shown(parse(options_of(ToolForm::Json), random_pieces(text, random), false)), "C(" + text + ")");
  }
}

TEST(Dialect, IsChosenFromTheTemplateOrByOption) {
  EXPECT_FALSE(dialect_of_template("plain").reasoning);
  EXPECT_EQ(dialect_of_template("<tool_call>").tools, ToolForm::Json);
  EXPECT_TRUE(dialect_of_template("a </think> b").reasoning);
  const Dialect auto_chosen = dialect_of_template("<think><tool_call><function=");
  EXPECT_EQ(with_options(auto_chosen, "auto", "auto").tools, ToolForm::Xml);
  EXPECT_EQ(with_options(auto_chosen, "none", "json").tools, ToolForm::Json);
  EXPECT_FALSE(with_options(auto_chosen, "none", "json").reasoning);
  EXPECT_ANY_THROW(with_options(auto_chosen, "maybe", "json"));
  EXPECT_ANY_THROW(with_options(auto_chosen, "auto", "yaml"));
}

TEST(Dialect, TheEndOfThePromptTellsWhereTheAnswerStarts) {
  const Dialect thinking{.reasoning = ReasoningMarks{}};
  EXPECT_EQ(reasoning_start("a</think>b<think>\n", thinking), ReasoningStart::Open);
  EXPECT_EQ(reasoning_start("<think>\n\n</think>\n\n", thinking), ReasoningStart::Closed);
  EXPECT_EQ(reasoning_start("what is <think>?", thinking), ReasoningStart::Unopened);
  EXPECT_EQ(reasoning_start("<think>", {}), ReasoningStart::Unopened);
  EXPECT_EQ(reasoning_start("<think>", thinking, "so"), ReasoningStart::Open);
  EXPECT_EQ(reasoning_start("<think>", thinking, "so</think> it"), ReasoningStart::Answering);
  EXPECT_EQ(reasoning_start("", thinking, "It is"), ReasoningStart::Answering);
  EXPECT_EQ(reasoning_start("", {}, "It is"), ReasoningStart::Answering);
  EXPECT_EQ(reasoning_start("", thinking, "<think>a"), ReasoningStart::Open);
}

}  // namespace
}  // namespace braid
