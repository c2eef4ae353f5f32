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

}  // namespace
}  // namespace braid
