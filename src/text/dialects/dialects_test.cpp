// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "text/dialects/reasoning.h"
#include "text/dialects/stop_strings.h"

namespace braid {
namespace {

struct SplitCase {
  const char* text;
  bool inside;
  const char* reasoning;
  const char* answer;
};

TEST(Reasoning, EverySplitPointGivesTheSamePartsWithoutMarks) {
  const SplitCase cases[] = {{"<think>\nhmm  so\n</think>\n\nyes < no", false, "hmm  so", "yes < no"},
                             {"\n12 + 3\n</think>\n\n15", true, "12 + 3", "15"},
                             {"</think>\n\nriver", true, "", "river"},
                             {"<think>\n\n</think>\n\nriver", false, "", "river"},
                             {"no marks <thin at all", false, "", "no marks <thin at all"},
                             {"never closed <", true, "never closed <", ""},
                             {"  plain", false, "", "plain"}};
  for (const SplitCase& c : cases) {
    const std::string text = c.text;
    for (size_t first = 0; first <= text.size(); ++first) {
      for (size_t second = first; second <= text.size(); ++second) {
        ReasoningSplitter splitter({}, c.inside);
        std::string reasoning, answer;
        for (const std::string& piece :
             {text.substr(0, first), text.substr(first, second - first), text.substr(second)}) {
          const auto out = splitter.push(piece);
          reasoning += out.reasoning;
          answer += out.answer;
        }
        const auto rest = splitter.finish();
        ASSERT_EQ(reasoning + rest.reasoning, c.reasoning) << text << first << " " << second;
        ASSERT_EQ(answer + rest.answer, c.answer) << text << first << " " << second;
      }
    }
  }
}

TEST(Reasoning, PromptsTellWhetherThoughtsAreOpen) {
  EXPECT_TRUE(ends_in_reasoning("a</think>b<think>", {}));
  EXPECT_FALSE(ends_in_reasoning("<think>\n\n</think>\n\n", {}));
  EXPECT_FALSE(ends_in_reasoning("nothing", {}));
}

TEST(StopStrings, NothingOfAStopIsShownAtAnySplitPoint) {
  const std::string text = "one END two";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    StopStrings stops({"END", " two"});
    std::string shown = stops.push(text.substr(0, cut));
    shown += stops.push(text.substr(cut));
    ASSERT_TRUE(stops.stopped());
    ASSERT_EQ(shown, "one ");
  }
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("the E"), "the ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("x"), "ENx");
  EXPECT_EQ(stops.push("EN"), "");
  EXPECT_EQ(stops.finish(), "EN");
}

}  // namespace
}  // namespace braid
