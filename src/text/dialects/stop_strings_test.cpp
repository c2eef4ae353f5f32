// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "text/dialects/stop_strings.h"

namespace braid {
namespace {

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

TEST(StopStrings, PartsOfAMarkAreNoStops) {
  StopStrings stops({"n", "think>x"});
  EXPECT_EQ(stops.push("so thi"), "so ");
  EXPECT_EQ(stops.push_mark("</think>"), "thi</think>");
  EXPECT_EQ(stops.push("x"), "x");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("on"), "o");
  EXPECT_EQ(stops.push_mark("</think>"), "");
  StopStrings whole({"</think>"});
  EXPECT_EQ(whole.push_mark("</think>"), "");
  EXPECT_EQ(whole.found(), "</think>");
}

}  // namespace
}  // namespace braid
