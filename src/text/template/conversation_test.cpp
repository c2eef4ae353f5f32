// SPDX-License-Identifier: Apache-2.0
#include "text/template/conversation.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid {
namespace {

// What is said of a conversation; empty where nothing is.
std::string fault(const char* messages, const char* tools = "null") {
  try {
    check_conversation(Json::parse(messages), Json::parse(tools));
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Conversation, TakesWhatRequestsHold) {
  EXPECT_EQ(fault(R"([{"role":"system","content":""},{"role":"user","content":null},{"role":"user"},
    {"role":"user","content":[{"type":"text","text":"a"},"b",{"type":"image_url","image_url":{"url":"x"}}]},
    {"role":"assistant","content":null,"reasoning_content":"why","tool_calls":[
      {"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"name":"g","arguments":{}}]},
    {"role":"tool","tool_call_id":"1","name":"f","content":"4"},{"role":"odd","more":5}])",
                  R"([{"type":"function","function":{"name":"f","parameters":{}}},{"name":"g"},{"type":"search"}])"),
            "");
}

TEST(Conversation, NamesThePlaceOfAFault) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "messages: expected an array"},
      {"[]", "messages: expected at least one message"},
      {"[5]", "messages[0]: expected an object"},
      {"[{}]", "messages[0].role: missing"},
      {R"([{"role":5}])", "messages[0].role: expected a string"},
      {R"([{"role":"user","content":5}])", "messages[0].content: expected a string, a list of parts, or null"},
      {R"([{"role":"user","content":[5]}])", "messages[0].content[0]: expected a string or an object with a type"},
      {R"([{"role":"user","content":[{}]}])", "messages[0].content[0].type: missing"},
      {R"([{"role":"user","content":["",{"type":"text","text":1}]}])",
       "messages[0].content[1].text: expected a string"},
      {R"([{"role":"a"},{"role":"a","tool_calls":{}}])", "messages[1].tool_calls: expected an array"},
      {R"([{"role":"a","tool_calls":[null]}])", "messages[0].tool_calls[0]: expected an object"},
      {R"([{"role":"a","tool_calls":[{"function":{}}]}])", "messages[0].tool_calls[0].function.name: missing"},
      {R"([{"role":"a","reasoning_content":[]}])", "messages[0].reasoning_content: expected a string"}};
  for (const auto& [messages, expected] : cases) EXPECT_EQ(fault(messages), expected) << messages;
}

TEST(Conversation, OfTextAlone) {
  const auto check = [](const char* messages) { check_text_alone(Json::parse(messages)); };
  check(R"([{"role":"a"},{"role":"a","content":null},{"role":"a","content":"b"},
            {"role":"a","content":["b",{"type":"text","text":"c"}]}])");
  try {
    check(R"([{"role":"a"},{"role":"a","content":["b",{"type":"image_url","image_url":{}}]}])");
    FAIL() << "an image passes";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "messages[1].content[1].type: 'image_url' parts are not supported, only text");
  }
}

TEST(Conversation, NamesThePlaceOfABadTool) {
  const std::pair<const char*, const char*> cases[] = {
      {"5", "tools: expected an array"},
      {"[null]", "tools[0]: expected an object"},
      {R"([{"function":"f"}])", "tools[0].function: expected an object"},
      {R"([{"function":{}}])", "tools[0].function.name: missing"}};
  for (const auto& [tools, expected] : cases) EXPECT_EQ(fault(R"([{"role":"user"}])", tools), expected) << tools;
}

}  // namespace
}  // namespace braid
