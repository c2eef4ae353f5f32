// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_context.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid {
namespace {

Json first_message(const std::string& message, const ChatContextOptions& options = {}) {
  return make_chat_context({.messages = Json::array({Json::parse(message)})}, options)["messages"][0];
}

TEST(ChatContext, HoldsWhatTransformersPasses) {
  const ChatInput input{.messages = Json::parse(R"([{"role":"user","content":"Hi"}])"),
                        .add_generation_prompt = false,
                        .special_tokens = {{"bos_token", "<s>"}},
                        .variables = {{"enable_thinking", false}}};
  EXPECT_EQ(make_chat_context(input, {}),
            Json::parse(R"({"messages":[{"role":"user","content":"Hi"}],"tools":null,"documents":null,
                            "add_generation_prompt":false,"bos_token":"<s>","enable_thinking":false})"));
}

TEST(ChatContext, ParsesArgumentStrings) {
  const auto arguments = [](const std::string& given, const ChatContextOptions& options = {}) {
    Json message = {{"role", "assistant"}};
    message["tool_calls"] = Json::array({{{"function", {{"name", "f"}, {"arguments", given}}}}});
    return first_message(message.dump(), options)["tool_calls"][0]["function"]["arguments"];
  };
  EXPECT_EQ(arguments(R"({"b": 1, "a": [2.0]})").dump(), R"({"b":1,"a":[2.0]})");
  EXPECT_EQ(arguments("  "), Json::object());
  EXPECT_EQ(arguments("{broken"), "{broken");
  EXPECT_EQ(arguments("[1]"), "[1]");
  EXPECT_EQ(arguments(R"({"a":1})", {.parse_tool_arguments = false}), R"({"a":1})");
}

TEST(ChatContext, ParsesArgumentsOfBareCalls) {
  const Json message = first_message(R"({"role":"assistant","tool_calls":[{"name":"f","arguments":"{\"x\":1}"}]})");
  EXPECT_EQ(message["tool_calls"][0]["arguments"], Json({{"x", 1}}));
}

TEST(ChatContext, FillsMissingContent) {
  EXPECT_EQ(first_message(R"({"role":"user"})")["content"], "");
  EXPECT_EQ(first_message(R"({"role":"assistant","content":null})")["content"], "");
  const char* calling = R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]})";
  EXPECT_TRUE(first_message(calling)["content"].is_null());
  EXPECT_FALSE(first_message(R"({"role":"user"})", {.fill_missing_content = false}).contains("content"));
}

TEST(ChatContext, JoinsTextParts) {
  const ChatContextOptions join{.join_text_parts = true};
  const char* texts = R"({"role":"user","content":[{"type":"text","text":"a"},"b"]})";
  EXPECT_EQ(first_message(texts, join)["content"], "a\nb");
  EXPECT_TRUE(first_message(texts)["content"].is_array());
  const char* image = R"({"role":"user","content":[{"type":"image"},{"type":"text","text":"a"}]})";
  EXPECT_TRUE(first_message(image, join)["content"].is_array());
}

TEST(ChatContext, RefusesWrongTypes) {
  const auto message_of = [](const ChatInput& input) {
    try {
      make_chat_context(input, {});
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message_of({.messages = Json("x")}), "messages: expected a list");
  EXPECT_EQ(message_of({.messages = Json::array({1})}), "messages[0]: expected an object");
  EXPECT_EQ(message_of({.tools = Json::object()}), "tools: expected a list");
  EXPECT_EQ(message_of({.variables = Json::array()}), "chat template variables: expected an object");
}

TEST(ChatContext, RendersAChatForItsTemplate) {
  const ChatInput input{.messages = Json::parse(R"([{"role":"user","content":[{"type":"text","text":"Hi"}]},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"x\": 1}"}}]}])")};
  const ChatTemplate plain(
      "{% for m in messages %}{{ m.role }}:{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
      "{% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %}{% endfor %};{% endfor %}",
      "plain");
  EXPECT_EQ(render_chat(plain, input), "user:Hi;assistant:x=1;");
}

}  // namespace
}  // namespace braid
