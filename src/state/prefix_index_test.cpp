// SPDX-License-Identifier: Apache-2.0
#include "state/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace braid {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixIndex, FindsTheLongestMarkThatAPromptBeginsWith) {
  PrefixIndex index;
  EXPECT_EQ(index.find(Tokens{1, 2}).common, 0);
  EXPECT_EQ(index.insert(Tokens{1, 2, 3, 4, 5}, 1), 1u);
  EXPECT_EQ(index.insert(Tokens{1, 2, 3}, 2), 2u);
  EXPECT_EQ(index.insert(Tokens{1, 2, 9}, 3), 3u);
  EXPECT_EQ(index.insert(Tokens{1, 2, 3}, 4), 2u) << "marked before";
  const auto expect = [&](const Tokens& tokens, int64_t length, MarkId mark, int64_t common) {
    const PrefixIndex::Found found = index.find(tokens);
    EXPECT_EQ(found.length, length);
    EXPECT_EQ(found.mark, mark);
    EXPECT_EQ(found.common, common);
  };
  expect({1, 2, 3, 4, 5, 6}, 5, 1, 5);
  expect({1, 2, 3, 4}, 3, 2, 4);
  expect({1, 2, 3}, 3, 2, 3);
  expect({1, 2, 7}, 0, 0, 2);
  expect({2, 2}, 0, 0, 0);
  EXPECT_EQ(index.tokens_of(1), (Tokens{1, 2, 3, 4, 5}));
  index.erase(1);
  expect({1, 2, 3, 4, 5, 6}, 3, 2, 3);
  index.erase(2);
  index.erase(3);
  expect({1, 2, 3}, 0, 0, 0);
  index.check_integrity();
}

// Against a list of all marked sequences.
TEST(PrefixIndex, AgreesWithAListUnderRandomChanges) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t bound) { return static_cast<int>(random() % bound); };
  const auto tokens = [&] {
    Tokens out(1 + static_cast<size_t>(below(12)));
    for (int32_t& token : out) token = below(3);
    return out;
  };
  PrefixIndex index;
  std::map<Tokens, MarkId> list;
  MarkId next = 1;
  int64_t hits = 0;
  for (int step = 0; step < 20000; ++step) {
    if (below(5) < 2 || list.empty()) {
      const Tokens added = tokens();
      const MarkId id = next++;
      const auto [place, fresh] = list.try_emplace(added, id);
      ASSERT_EQ(index.insert(added, id), place->second);
    } else if (below(3) > 0) {
      const auto victim = std::next(list.begin(), below(static_cast<uint32_t>(list.size())));
      ASSERT_EQ(index.tokens_of(victim->second), victim->first);
      index.erase(victim->second);
      list.erase(victim);
    }
    ASSERT_EQ(index.size(), list.size());
    const Tokens asked = tokens();
    PrefixIndex::Found expected;
    for (const auto& [marked, id] : list) {
      const auto end = std::mismatch(asked.begin(), asked.end(), marked.begin(), marked.end());
      const int64_t common = end.first - asked.begin();
      expected.common = std::max(expected.common, common);
      if (end.second == marked.end() && common > expected.length) expected.length = common, expected.mark = id;
    }
    const PrefixIndex::Found found = index.find(asked);
    ASSERT_EQ(found.length, expected.length);
    ASSERT_EQ(found.mark, expected.mark);
    ASSERT_EQ(found.common, expected.common);
    if (found.common > 0) {
      const Tokens beyond = index.tokens_of(found.beyond);
      ASSERT_GE(std::ssize(beyond), found.common);
      ASSERT_TRUE(std::equal(asked.begin(), asked.begin() + found.common, beyond.begin()));
    }
    hits += found.length > 0 ? 1 : 0;
    index.check_integrity();
  }
  EXPECT_GT(hits, 5000);
}

}  // namespace
}  // namespace braid
