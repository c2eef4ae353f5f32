// SPDX-License-Identifier: Apache-2.0
#include "state/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"
#include "reference/executor.h"

namespace braid {
namespace {

using Bytes = std::vector<std::byte>;
constexpr int64_t kPage = StatePool::kPageTokens;

std::vector<StateNeed> mixed_needs() {
  return {{.name = "0.keys", .bytes_per_token = 8},
          {.name = "1.window", .bytes_per_sequence = 12},
          {.name = "0.values", .bytes_per_token = 4},
          {.name = "1.state", .bytes_per_sequence = 40}};
}

// What a sequence must hold, need by need, kept outside of the pool.
struct Expected {
  int64_t length = 0;
  std::vector<Bytes> arrays;
};

// A pool with a plain model beside it. Whatever is free holds NaN.
class PoolTest : public ::testing::Test {
 protected:
  explicit PoolTest(StatePool::Limits limits = {.pages = 24, .slots = 5})
      : executor_(make_reference_executor()), pool_(*executor_, mixed_needs(), limits) {
    for (int need = 0; need < 4; ++need) executor_->submit(Fill{.out = pool_.array({need}), .byte = 0xFF});
  }

  struct Pair {
    SequenceState state;
    Expected expected;
  };

  Pair acquire() {
    Pair pair{.state = pool_.acquire()};
    for (const StateNeed& need : pool_.needs())
      pair.expected.arrays.emplace_back(static_cast<size_t>(need.bytes_per_sequence), std::byte{0});
    return pair;
  }

  // Random words that are not NaN as f32.
  Bytes random_bytes(int64_t count) {
    Bytes bytes(static_cast<size_t>(count));
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      const uint32_t word = random_() & 0xBFFFFFFF;
      std::memcpy(&bytes[at], &word, 4);
    }
    return bytes;
  }

  // Appends `count` tokens of random state and changes the slot.
  bool write(Pair& pair, int64_t count) {
    const int64_t from = pair.expected.length, length = from + count;
    const int64_t missing = pool_.missing_pages(pair.state, length), free = pool_.free_pages();
    const bool fits = pool_.grow(pair.state, length);
    EXPECT_EQ(fits, missing <= free);
    EXPECT_EQ(pool_.free_pages(), fits ? free - missing : free);
    if (!fits) return false;
    for (int need = 0; need < 4; ++need) {
      const StateNeed& size = pool_.needs()[static_cast<size_t>(need)];
      Bytes& expected = pair.expected.arrays[static_cast<size_t>(need)];
      if (size.bytes_per_sequence > 0) {
        expected = random_bytes(size.bytes_per_sequence);
        executor_->upload(pool_.array({need}).slice_rows(pair.state.slot, 1), expected);
        continue;
      }
      expected.resize(static_cast<size_t>(from * size.bytes_per_token));
      for (int64_t token = from; token < length; ++token) {
        const Bytes row = random_bytes(size.bytes_per_token);
        executor_->upload(row_of(pair.state, need, token), row);
        expected.insert(expected.end(), row.begin(), row.end());
      }
    }
    pool_.commit(pair.state, length);
    pair.expected.length = length;
    return true;
  }

  // Forgets the last tokens, as parts that rewind by length do.
  void rewind(Pair& pair, int64_t length) {
    pool_.commit(pair.state, length);
    pair.expected.length = length;
    for (size_t need = 0; need < 4; ++need)
      if (const int64_t bytes = pool_.needs()[need].bytes_per_token; bytes > 0)
        pair.expected.arrays[need].resize(static_cast<size_t>(length * bytes));
  }

  void release(Pair& pair) {
    pool_.release(pair.state);
    pool_.release(pair.state);
    pair = {};
  }

  Tensor row_of(const SequenceState& state, int need, int64_t token) {
    const Tensor page = pool_.array({need}).slice_rows(state.pages[static_cast<size_t>(token / kPage)], 1);
    return page.reshape({kPage, page.width()}).slice_rows(token % kPage, 1);
  }

  void check(const std::vector<Pair>& pairs) {
    std::vector<const SequenceState*> held;
    for (const Pair& pair : pairs) held.push_back(&pair.state);
    pool_.check_integrity(held);
    for (const Pair& pair : pairs) check(pair);
  }

  void check(const Pair& pair) {
    if (pair.state.slot < 0) return;
    ASSERT_EQ(pair.state.length, pair.expected.length);
    for (int need = 0; need < 4; ++need) {
      const StateNeed& size = pool_.needs()[static_cast<size_t>(need)];
      Bytes found(static_cast<size_t>(size.bytes_per_sequence + size.bytes_per_token * pair.state.length));
      if (size.bytes_per_sequence > 0)
        executor_->download(found, pool_.array({need}).slice_rows(pair.state.slot, 1));
      else
        for (int64_t token = 0; token < pair.state.length; ++token)
          executor_->download(std::span(found).subspan(static_cast<size_t>(token * size.bytes_per_token),
                                                       static_cast<size_t>(size.bytes_per_token)),
                              row_of(pair.state, need, token));
      ASSERT_EQ(found, pair.expected.arrays[static_cast<size_t>(need)]) << "need " << need;
    }
  }

  // Free pages and slots are given NaN again, so that nobody may rely on what they hold.
  void poison_free(const std::vector<Pair>& pairs) {
    for (int32_t page = 0; page < pool_.limits().pages; ++page)
      if (std::none_of(pairs.begin(), pairs.end(),
                       [&](const Pair& pair) { return std::ranges::count(pair.state.pages, page) > 0; }))
        for (const int need : {0, 2})
          executor_->submit(Fill{.out = pool_.array({need}).slice_rows(page, 1), .byte = 0xFF});
    for (int32_t slot = 0; slot < pool_.limits().slots; ++slot)
      if (std::none_of(pairs.begin(), pairs.end(), [&](const Pair& pair) { return pair.state.slot == slot; }))
        for (const int need : {1, 3})
          executor_->submit(Fill{.out = pool_.array({need}).slice_rows(slot, 1), .byte = 0xFF});
  }

  std::mt19937 random_{7};
  std::unique_ptr<Executor> executor_;
  StatePool pool_;
};

TEST_F(PoolTest, RandomLivesHoldWhatAPlainModelHolds) {
  std::vector<Pair> pairs;
  std::vector<std::pair<Snapshot, Expected>> snapshots;
  int exhausted = 0, forks = 0, restores = 0, rewinds = 0;
  const auto below = [&](size_t bound) { return static_cast<size_t>(random_() % bound); };
  for (int step = 0; step < 4000; ++step) {
    const size_t action = below(16);
    if (action < 2 && pool_.free_slots() > 0) pairs.push_back(acquire());
    if (pairs.empty()) continue;
    Pair& pair = pairs[below(pairs.size())];
    if (action >= 2 && action < 9) exhausted += write(pair, 1 + static_cast<int64_t>(below(40))) ? 0 : 1;
    if (action == 9) rewind(pair, static_cast<int64_t>(below(static_cast<size_t>(pair.state.length) + 1))), ++rewinds;
    if (action == 10 && pool_.free_slots() > 0) {
      Pair twin{.state = pool_.fork(pair.state), .expected = pair.expected};
      pairs.push_back(std::move(twin)), ++forks;
    } else if (action == 11) {
      snapshots.emplace_back(pool_.snapshot(pair.state), pair.expected);
    } else if (action == 12 && !snapshots.empty() && pool_.free_slots() > 0) {
      const auto& [snapshot, expected] = snapshots[below(snapshots.size())];
      if (StatePool::pages_for(snapshot.length) <= pool_.free_pages())
        pairs.push_back({.state = pool_.restore(snapshot), .expected = expected}), ++restores;
      else
        EXPECT_THROW(pool_.restore(snapshot), Error);
    } else if (action > 13) {
      std::swap(pair, pairs.back());
      release(pairs.back());
      pairs.pop_back();
    }
    poison_free(pairs);
    check(pairs);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(exhausted, 50);
  EXPECT_GT(forks, 50);
  EXPECT_GT(restores, 50);
  EXPECT_GT(rewinds, 50);
  for (Pair& pair : pairs) release(pair);
  EXPECT_EQ(pool_.free_pages(), 24);
  EXPECT_EQ(pool_.free_slots(), 5);
}

TEST_F(PoolTest, AClaimedSlotIsClear) {
  Pair first = acquire();
  check(first);
  ASSERT_TRUE(write(first, 3));
  release(first);
  check(acquire());
}

TEST_F(PoolTest, ForkSharesPagesUntilOneOfTheTwoWrites) {
  Pair first = acquire();
  ASSERT_TRUE(write(first, 2 * kPage + 5));
  Pair twin{.state = pool_.fork(first.state), .expected = first.expected};
  EXPECT_EQ(pool_.free_pages(), 21);
  ASSERT_TRUE(write(twin, 1));
  EXPECT_EQ(pool_.free_pages(), 20);
  EXPECT_EQ(first.state.pages[1], twin.state.pages[1]);
  EXPECT_NE(first.state.pages[2], twin.state.pages[2]);
  ASSERT_TRUE(write(first, 1));  // alone on its open page by now
  EXPECT_EQ(pool_.free_pages(), 20);
  check(std::vector<Pair>{first, twin});
}

TEST_F(PoolTest, RewoundIntoASharedPageItCopiesThatPage) {
  Pair first = acquire();
  ASSERT_TRUE(write(first, 3 * kPage));
  Pair twin{.state = pool_.fork(first.state), .expected = first.expected};
  rewind(first, kPage + 2);
  ASSERT_TRUE(write(first, 2 * kPage));
  EXPECT_EQ(first.state.pages[0], twin.state.pages[0]);
  check(std::vector<Pair>{first, twin});
}

TEST_F(PoolTest, ExhaustionChangesNothing) {
  std::vector<Pair> pairs;
  for (int slot = 0; slot < 5; ++slot) pairs.push_back(acquire());
  ASSERT_TRUE(write(pairs[0], 23 * kPage));
  EXPECT_FALSE(write(pairs[1], kPage + 1));
  EXPECT_TRUE(pairs[1].state.pages.empty());
  const Snapshot snapshot = pool_.snapshot(pairs[0].state);
  for (const auto& claim : std::vector<std::function<void()>>{
           [&] { pool_.acquire(); }, [&] { pool_.fork(pairs[0].state); }, [&] { pool_.restore(snapshot); }}) {
    try {
      claim();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Resource) << error.what();
    }
    check(pairs);
  }
}

TEST_F(PoolTest, SnapshotsOfAnotherLayoutOrSizeAreRefused) {
  Pair pair = acquire();
  ASSERT_TRUE(write(pair, 20));
  const Snapshot good = pool_.snapshot(pair.state);
  Snapshot bad = good;
  bad.layout ^= 1;
  EXPECT_THROW(pool_.restore(bad), Error);
  bad = good, bad.bytes.pop_back();
  EXPECT_THROW(pool_.restore(bad), Error);
  bad = good, bad.length = INT64_MAX;
  EXPECT_THROW(pool_.restore(bad), Error);
  bad = good, bad.length = -1;
  EXPECT_THROW(pool_.restore(bad), Error);
  check(std::vector<Pair>{pair});
}

TEST(PoolLayout, DependsOnEveryNeed) {
  const auto executor = make_reference_executor();
  const auto layout = [&](auto&& change) {
    std::vector<StateNeed> needs = mixed_needs();
    change(needs);
    return StatePool(*executor, needs, {.pages = 1, .slots = 1}).layout();
  };
  const uint64_t plain = layout([](auto&) {});
  EXPECT_EQ(plain, layout([](auto&) {}));
  EXPECT_NE(plain, layout([](auto& needs) { needs[0].name = "0.key"; }));
  EXPECT_NE(plain, layout([](auto& needs) { needs[0].bytes_per_token = 12; }));
  EXPECT_NE(plain, layout([](auto& needs) { needs[1].bytes_per_sequence = 16; }));
  EXPECT_NE(plain, layout([](auto& needs) { std::swap(needs[0], needs[2]); }));
  EXPECT_NE(plain, layout([](auto& needs) { needs.pop_back(); }));
}

TEST(PoolLimits, MoreThanCanBeAddressedIsAResourceError) {
  const auto executor = make_reference_executor();
  const std::vector<StateNeed> needs{{.name = "keys", .bytes_per_token = int64_t{1} << 40}};
  try {
    StatePool(*executor, needs, {.pages = int64_t{1} << 30, .slots = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Resource) << error.what();
  }
}

using PoolDeathTest = PoolTest;

TEST_F(PoolDeathTest, IntegrityNoticesAPageThatIsHeldTwice) {
  Pair pair = acquire();
  ASSERT_TRUE(write(pair, 5));
  SequenceState copy = pair.state;
  const std::vector<const SequenceState*> held{&pair.state, &copy}, none;
  EXPECT_DEATH(pool_.check_integrity(held), "held");
  EXPECT_DEATH(pool_.check_integrity(none), "held");
}

}  // namespace
}  // namespace braid
