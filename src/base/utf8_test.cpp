// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace braid {

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char c = decode_utf8(text, 0);
    ASSERT_TRUE(c.valid && c.code == code && c.bytes == text.size()) << code;
    for (size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(incomplete_utf8_tail("a" + text.substr(0, cut)), cut) << code;
    ASSERT_EQ(incomplete_utf8_tail("a" + text), 0u) << code;
  }
}

TEST(Utf8, IllFormedPartsBecomeOneReplacementEach) {
  EXPECT_EQ(to_valid_utf8("\xC0\x80x"), "\xEF\xBF\xBD\xEF\xBF\xBDx");                // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98z"), "\xEF\xBF\xBDz");                        // cut short
  EXPECT_FALSE(is_utf8("\xFF"));
  EXPECT_EQ(incomplete_utf8_tail("\xED\xA0"), 0u);  // cannot become a character any more
}

}  // namespace braid
