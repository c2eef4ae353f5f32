// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace braid {
namespace {

std::string render(const std::string& source, const Json& context = Json::object()) {
  return ChatTemplate(source, "test").render(context);
}

TemplateError error_of(const std::string& source, const Json& context = Json::object(), TemplateOptions options = {}) {
  try {
    const std::string output = ChatTemplate(source, "test", std::move(options)).render(context);
    ADD_FAILURE() << "rendered " << source << ": " << output.substr(0, 200);
  } catch (const TemplateError& error) {
    return error;
  }
  return TemplateError({TemplateFault::Syntax, "none", 0, "no error"});
}

TEST(ChatTemplate, RendersMessages) {
  const Json context =
      Json::parse(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null}]})");
  EXPECT_EQ(render("{% for m in messages %}\n{{ m.role }}: {{ m.content }}\n{% endfor %}\n", context),
            "user: Hi\nassistant: None\n");
}

TEST(ChatTemplate, PrintsValuesAsPythonDoes) {
  EXPECT_EQ(render("{{ [1, 1.0, true, none, 'it\\'s', {'k': (1,)}] }}"), "[1, 1.0, True, None, \"it's\", {'k': (1,)}]");
  EXPECT_EQ(render("{{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}"), "1e+16 1e-05 0.30000000000000004");
  EXPECT_EQ(render("{{ x }}", {{"x", 18446744073709551615u}}), "18446744073709551615");
}

TEST(ChatTemplate, ToJsonIsPlainPythonJson) {
  EXPECT_EQ(render("{{ x | tojson }}", Json::parse(R"({"x":{"b":"<é&'>","a":[1.0,null]}})")),
            R"({"b": "<é&'>", "a": [1.0, null]})");
}

TEST(ChatTemplate, IndexesCharactersNotBytes) {
  EXPECT_EQ(render("{{ s|length }} {{ s[1] }} {{ s[::-1] }} {{ s.find('日') }}", {{"s", "é😀日"}}), "3 😀 日😀é 2");
}

TEST(ChatTemplate, RaiseExceptionGivesItsText) {
  const TemplateError error = error_of("a\nb\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(error.fault(), TemplateFault::Raised);
  EXPECT_EQ(error.cause(), "roles must alternate");
  EXPECT_EQ(error.line(), 3);
  EXPECT_EQ(error.kind(), ErrorKind::Input);
  EXPECT_EQ(error.message(), "template test, line 3: roles must alternate");
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  const TemplateError missing = error_of("x\n{% if true %}\n  {{ messages[0].content }}\n{% endif %}");
  EXPECT_EQ(missing.fault(), TemplateFault::Runtime);
  EXPECT_EQ(missing.message(), "template test, line 3: 'messages' is undefined");
  const TemplateError type = error_of("{{ 'a'\n + \n 1 }}");
  EXPECT_EQ(type.cause(), "unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(type.line(), 2);
  const TemplateError syntax = error_of("\n\n{% if %}");
  EXPECT_EQ(syntax.fault(), TemplateFault::Syntax);
  EXPECT_EQ(syntax.line(), 3);
  EXPECT_EQ(error_of("{% include 'x' %}").fault(), TemplateFault::Syntax);
  EXPECT_EQ(error_of("a\xff").cause(), "the source is not UTF-8");
}

TEST(ChatTemplate, MutatingMethodsAreRefused) {
  for (const char* call :
       {"l.append(1)", "l.pop()", "l.extend([1])", "d.update({})", "d.pop('a')", "d.setdefault('b', 1)"}) {
    const TemplateError error = error_of(fmt::format("{{{{ {} }}}}", call), Json::parse(R"({"l":[1],"d":{"a":1}})"));
    EXPECT_EQ(error.fault(), TemplateFault::Runtime) << call;
    EXPECT_NE(error.cause().find("unsafe"), std::string::npos) << error.cause();
  }
}

TEST(ChatTemplate, ContextMustBeAnObject) { EXPECT_EQ(error_of("x", Json::array()).fault(), TemplateFault::Runtime); }

TEST(ChatTemplate, InvalidUtf8OfTheContextIsReplaced) {
  EXPECT_EQ(render("{{ s }}", {{"s", "a\xff"}}), "a\xEF\xBF\xBD");
}

TEST(ChatTemplate, StrftimeNowUsesTheGivenClock) {
  const TemplateOptions options{.now = [] {
    std::tm time{};
    time.tm_year = 100;
    time.tm_mday = 2;
    return time;
  }};
  EXPECT_EQ(ChatTemplate("{{ strftime_now('%d %b %Y') }}", "t", options).render(Json::object()), "02 Jan 2000");
}

TEST(ChatTemplate, KnowsWhatItMentions) {
  const ChatTemplate chat_template("{% if enable_thinking %}{{ m.reasoning_content }}{% endif %}", "t");
  EXPECT_TRUE(chat_template.mentions("enable_thinking"));
  EXPECT_TRUE(chat_template.mentions("reasoning_content"));
  EXPECT_FALSE(chat_template.mentions("thinking"));
}

TEST(ChatTemplate, KnowsWhetherItWalksContentParts) {
  const auto walks = [](const char* source) { return ChatTemplate(source, "t").walks_content_parts(); };
  EXPECT_TRUE(walks("{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"));
  EXPECT_TRUE(walks("{% for p in m['content'] | list %}{% endfor %}"));
  EXPECT_TRUE(walks("{% macro r(content) %}{% for p in content %}{% endfor %}{% endmacro %}"));
  EXPECT_FALSE(walks("{% for m in messages %}{{ m.content }}{% endfor %}"));
}

// ---- hostile templates end in an error

struct Hostile {
  const char* what;
  const char* source;
};

class HostileTemplate : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplate, EndsInALimit) {
  const auto start = std::chrono::steady_clock::now();
  const TemplateOptions small{
      .limits = {.output_bytes = 4 << 20, .steps = 1'000'000, .built_bytes = uint64_t{256} << 20}};
  const TemplateError error = error_of(GetParam().source, Json::object(), small);
  EXPECT_EQ(error.fault(), TemplateFault::Limit) << error.what();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileTemplate,
    testing::Values(
        Hostile{"recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
        Hostile{"mutual", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
        Hostile{"range", "{% for i in range(10000000) %}{% endfor %}"},
        Hostile{"loops", "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}"},
        Hostile{"repeat", "{{ 'a' * 10000000000 }}"}, Hostile{"repeat list", "{{ [0] * 10000000000 }}"},
        Hostile{"doubling",
                "{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}"},
        Hostile{"shared lists",
                "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = [n.l, n.l] %}{% endfor %}"},
        Hostile{"deep lists",
                "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% set n.l = [n.l] %}{% endfor %}"},
        Hostile{
            "deep generators",
            "{% set n = namespace(l=[1]) %}{% for i in range(99999) %}{% set n.l = n.l|map('string') %}{% endfor %}"},
        Hostile{"output", "{% set s = 'x' * 1000000 %}{% for i in range(1000) %}{{ s }}{% endfor %}"},
        Hostile{"built", "{% set s = 'x' * 60000000 %}{% for i in range(1000) %}{% set t = s ~ i %}{% endfor %}"},
        Hostile{"padding", "{{ '%999999999999d' % 1 }}"}, Hostile{"spec", "{{ '{:999999999999}'.format(1) }}"},
        Hostile{"center", "{{ 'x'.center(99999999999) }}"}, Hostile{"indent", "{{ 'x\ny'|indent(99999999999) }}"},
        Hostile{"replace", "{% set s = 'x' * 1000000 %}{{ s.replace('x', s) }}"},
        Hostile{"join", "{% set s = 'x' * 1000000 %}{{ s.join(s) }}"},
        Hostile{"json", "{% set l = ['x' * 1000000] * 1000 %}{{ l | tojson }}"},
        Hostile{"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"}),
    [](const auto& tested) {
      std::string name = tested.param.what;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

TEST(ChatTemplate, DeepSourceIsASyntaxError) {
  const auto repeated = [](const char* piece, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += piece;
    return text;
  };
  for (const std::string& source :
       {"{{ " + repeated("(", 10000) + "1" + repeated(")", 10000) + " }}", "{{ " + repeated("[", 10000),
        "{{ " + repeated("not ", 10000) + "1 }}", "{{ " + repeated("-", 10000) + "1 }}",
        "{{ 1" + repeated(" + 1", 10000) + " }}", "{{ x" + repeated(".y", 10000) + " }}",
        "{{ x" + repeated("|upper", 10000) + " }}", repeated("{% if 1 %}", 10000), repeated("{% for x in y %}", 10000),
        "{{ 1" + repeated(" if 1 else 2", 10000) + " }}", "{{ f" + repeated("(f", 10000) + " }}"}) {
    EXPECT_EQ(error_of(source).fault(), TemplateFault::Syntax) << source.substr(0, 30);
  }
}

TEST(ChatTemplate, CirclesAreFreed) {
  // Leak checkers see what this would leave behind.
  EXPECT_EQ(
      render("{% set n = namespace() %}{% set n.self = [n] %}{% macro m() %}{% set n.m = m %}{% endmacro %}{{ m() }}"
             "{% for i in [1] %}{% set n.l = loop %}{{ loop.changed(loop) }}{% endfor %}{{ n.self|length }}"),
      "True1");
}

TEST(ChatTemplate, LimitsCanBeSet) {
  EXPECT_EQ(
      error_of("{% for i in range(100) %}x{% endfor %}", Json::object(), {.limits = {.output_bytes = 99}}).fault(),
      TemplateFault::Limit);
  EXPECT_EQ(error_of("{% for i in range(100) %}{% endfor %}", Json::object(), {.limits = {.steps = 50}}).fault(),
            TemplateFault::Limit);
}

TEST(ChatTemplate, RendersInSeveralThreads) {
  const ChatTemplate chat_template(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% for i in range(50) %}{{ m(i ~ tag) }}{% endfor %}", "t");
  const std::string expected = chat_template.render({{"tag", "a"}});
  std::vector<std::thread> threads;
  std::vector<std::string> outputs(4);
  for (std::string& output : outputs) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) output = chat_template.render({{"tag", "a"}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& output : outputs) EXPECT_EQ(output, expected);
}

}  // namespace
}  // namespace braid
