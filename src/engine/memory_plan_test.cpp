// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace braid {
namespace {

const std::vector<StateNeed> kNeeds{{.name = "keys", .bytes_per_token = 100},
                                    {.name = "values", .bytes_per_token = 60},
                                    {.name = "state", .bytes_per_sequence = 5000}};

TEST(MemoryPlan, WithoutALimitEverySequenceHasItsContext) {
  const StatePool::Limits limits = plan_state(kNeeds, {.context = 100, .sequences = 3});
  EXPECT_EQ(limits.pages, 21);
  EXPECT_EQ(limits.slots, 3);
  EXPECT_EQ(state_bytes(kNeeds, limits), 21 * 16 * 160 + 4 * 5000);
}

TEST(MemoryPlan, BytesBoundThePages) {
  const MemoryRequest request{.context = 100, .sequences = 3, .bytes = 20000 + 9 * 2560 + 2559};
  const StatePool::Limits limits = plan_state(kNeeds, request);
  EXPECT_EQ(limits.pages, 9);
  EXPECT_LE(state_bytes(kNeeds, limits), *request.bytes);
  EXPECT_EQ(plan_state(kNeeds, {.context = 100, .sequences = 3, .bytes = int64_t{1} << 40}).pages, 21);
}

TEST(MemoryPlan, TooLittleForOneContextShowsTheSum) {
  try {
    plan_state(kNeeds, {.context = 100, .sequences = 3, .bytes = 20000 + 7 * 2560 - 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource);
    EXPECT_EQ(error.message(),
              "a context of 100 tokens needs 37920 bytes of state (7 pages of 2560 bytes and 4 slots of 5000 bytes), "
              "37919 are given");
  }
}

TEST(MemoryPlan, StateWithoutPagesNeedsNoBytesForThem) {
  const std::vector<StateNeed> needs{{.name = "state", .bytes_per_sequence = 5000}};
  EXPECT_EQ(plan_state(needs, {.context = 100, .sequences = 2, .bytes = 1}).pages, 14);
}

TEST(MemoryPlan, TheCacheTakesAFewConversationsOfWhatIsFree) {
  constexpr int64_t kPlenty = int64_t{1} << 40;
  // Marks every 256 tokens, four at the ends of a turn.
  EXPECT_EQ(default_cache_bytes(kNeeds, 512, kPlenty), 4 * (6 * 5000 + 32 * 2560));
  EXPECT_EQ(default_cache_bytes(kNeeds, 262144, kPlenty), default_cache_bytes(kNeeds, 32768, kPlenty));
  EXPECT_EQ(default_cache_bytes(kNeeds, 32768, 4000), 1000);
}

TEST(MemoryPlan, KeptSlotsTakeAnEighthOfTheMemoryOfState) {
  EXPECT_EQ(kept_slots(kNeeds, 10 * 8 * 5000), 10);
  EXPECT_EQ(kept_slots(kNeeds, 0), 4);
  EXPECT_EQ(kept_slots(kNeeds, int64_t{1} << 40), 64);
  EXPECT_EQ(kept_slots(std::span(kNeeds).first(2), int64_t{1} << 40), 0);
  const StatePool::Limits limits = plan_state(kNeeds, {.context = 100, .sequences = 3, .kept = 2});
  EXPECT_EQ(limits.slots, 5);
  const MemoryRequest request{.context = 100, .sequences = 3, .kept = 2, .bytes = 30000 + 9 * 2560};
  EXPECT_EQ(plan_state(kNeeds, request).pages, 9);
}

TEST(MemoryPlan, MorePagesThanCanBeCountedAreRefused) {
  EXPECT_THROW(plan_state(kNeeds, {.context = int64_t{1} << 40, .sequences = 1}), Error);
  EXPECT_THROW(plan_state(kNeeds, {.context = INT64_MAX - 100, .sequences = 1 << 30}), Error);
}

}  // namespace
}  // namespace braid
