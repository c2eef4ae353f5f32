// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace braid {
namespace {

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalized("plain", NormalForm::Nfkd), "plain");
  EXPECT_EQ(normalized("e\u0301\u00e9", NormalForm::Nfc), "\u00e9\u00e9");
  EXPECT_EQ(normalized("\u00e9", NormalForm::Nfd), "e\u0301");
  EXPECT_EQ(normalized("\ufb01\u00b2", NormalForm::Nfkc), "fi2");
  EXPECT_EQ(normalized("\ufb01\u00b2", NormalForm::Nfc), "\ufb01\u00b2");
  EXPECT_EQ(normalized("\u1100\u1161\u11a8", NormalForm::Nfc), "\uac01");
  EXPECT_EQ(normalized("a\u0301\u0323", NormalForm::Nfc), "\u1ea1\u0301");  // the dot below comes first
  EXPECT_EQ(normalized("\u0958", NormalForm::Nfc), "\u0915\u093c");         // excluded from composition
  EXPECT_EQ(normalized(std::string("\0e\u0301", 4), NormalForm::Nfc), std::string("\0\u00e9", 3));
}

// A quadratic sort of these marks would take hours.
TEST(Unicode, ManyMarksOnOneLetterAreSortedQuickly) {
  std::string text = "a", above, below;
  for (int i = 0; i < 200'000; ++i) {
    text += "\u0301\u0316";
    above += "\u0301";
    below += "\u0316";
  }
  EXPECT_EQ(normalized(text, NormalForm::Nfd), "a" + below + above);
}

TEST(Unicode, LowercaseIsTheFullMapping) {
  std::string out;
  for (const uint32_t code : {0x41u, 0x130u, 0x3A3u, 0x61u, 0x4E2Du}) append_lowercase(out, code);
  EXPECT_EQ(out, "ai\u0307\u03c3a\u4e2d");
}

TEST(Unicode, Classes) {
  EXPECT_TRUE(is_mark(0x301) && is_mark(0x903) && is_mark(0x20DD));
  EXPECT_FALSE(is_mark('a'));
  EXPECT_TRUE(is_number('7') && is_number(0xBD) && is_number(0x2160));
  EXPECT_TRUE(is_punctuation('$') && is_punctuation('_') && is_punctuation(0x3002));
  EXPECT_FALSE(is_punctuation('a') || is_punctuation('1') || is_punctuation(' ') || is_punctuation(0x20AC));
  EXPECT_TRUE(is_space(' ') && is_space('\v') && is_space(0x85) && is_space(0x3000));
  EXPECT_FALSE(is_space(0x180E) || is_space(0x200B) || is_space(0x1F));
  EXPECT_TRUE(is_word('_') && is_word(0x301) && is_word(0x24B6) && is_word(0x4E2D));
  EXPECT_FALSE(is_word('-') || is_word(0xB2));
}

}  // namespace
}  // namespace braid
