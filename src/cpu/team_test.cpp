// SPDX-License-Identifier: Apache-2.0
#include "cpu/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <vector>

namespace braid::cpu {
namespace {

void run(Team& team, const std::function<void(const Share&)>& work) {
  team.run(
      {.work = [](const void* context,
                  const Share& share) { (*static_cast<const std::function<void(const Share&)>*>(context))(share); },
       .context = &work});
}

TEST(Team, MemberZeroIsTheCallerAndNobodyJoinsTwice) {
  for (const int members : {1, 2, 9}) {
    Team team(members);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(members));
      run(team, [&](const Share& share) {
        EXPECT_EQ(share.members, members);
        ++calls[static_cast<size_t>(share.member)];
      });
      EXPECT_EQ(calls[0], 1);
      for (const auto& count : calls) EXPECT_LE(count, 1);
    }
  }
}

// Every work item waits until several members are at work, however late the system wakes them.
TEST(Team, HelpersHelp) {
  Team team(3);
  std::atomic<int> at_work{0};
  run(team, [&](const Share&) {
    ++at_work;
    const auto start = std::chrono::steady_clock::now();
    while (at_work < 3 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
      std::this_thread::yield();
  });
  EXPECT_EQ(at_work, 3);
}

// More members than processors: a barrier that only spins would need a time slice per member.
TEST(Team, EveryItemIsTakenOnceAndABarrierHoldsAllBack) {
  for (const int members : {1, 2, 8}) {
    Team team(members);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> first(100), second(70);
      std::atomic<bool> early{false};
      run(team, [&](const Share& share) {
        for (int64_t i = share.take(100); i >= 0; i = share.take(100)) ++first[static_cast<size_t>(i)];
        share.barrier();
        for (const auto& count : first)
          if (count != 1) early = true;
        for (int64_t i = share.take(70); i >= 0; i = share.take(70)) ++second[static_cast<size_t>(i)];
      });
      EXPECT_FALSE(early);
      for (const auto& count : second) EXPECT_EQ(count, 1);
    }
  }
}

// A helper that is asleep when a task begins comes when the first barrier is long passed, and still helps.
TEST(Team, ALateHelperSkipsWhatIsDone) {
  Team team(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> first{0}, second{0}, third{0};
  std::atomic<bool> helped{false}, early{false};
  run(team, [&](const Share& share) {
    while (share.take(3) >= 0) ++first;
    share.barrier();
    while (share.take(2) >= 0) ++second;
    share.barrier();
    if (first != 3 || second != 2) early = true;
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = share.take(1000000); i >= 0; i = share.take(1000000)) {
      ++third;
      if (share.member != 0) helped = true;
      if (!helped && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(helped);
  EXPECT_FALSE(early);
  EXPECT_EQ(third, 1000000);
}

TEST(Team, WhatATaskWroteIsThereForTheNext) {
  Team team(4);
  std::vector<int64_t> values(1000, 0);
  for (int64_t round = 1; round <= 300; ++round) {
    run(team, [&](const Share& share) {
      for (int64_t i = share.take(1000); i >= 0; i = share.take(1000)) values[static_cast<size_t>(i)] += round;
    });
  }
  for (const int64_t value : values) EXPECT_EQ(value, 300 * 301 / 2);
}

TEST(Team, WorkspacesAreAlignedOwnedAndGrow) {
  Team team(3);
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    std::vector<std::byte*> own(3), shared(3);
    run(team, [&](const Share& share) {
      const auto place = static_cast<size_t>(share.member);
      own[place] = share.workspace(bytes);
      shared[place] = share.shared_workspace(bytes);
      own[place][bytes - 1] = std::byte{1};
      share.barrier();
    });
    for (size_t i = 0; i < 3; ++i) {
      if (own[i] == nullptr) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(own[i]) % 64, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(shared[i]) % 64, 0u);
      EXPECT_EQ(shared[i], shared[0]);
      for (size_t j = 0; j < i; ++j) EXPECT_NE(own[i], own[j]);
    }
  }
}

TEST(Team, AloneIsAlone) {
  Team team(4);
  std::vector<int> taken;
  const std::function<void(const Share&)> work = [&](const Share& share) {
    EXPECT_EQ(share.member, 0);
    EXPECT_EQ(share.members, 1);
    for (int64_t i = share.take(5); i >= 0; i = share.take(5)) taken.push_back(static_cast<int>(i));
    share.barrier();
    EXPECT_EQ(share.take(1), 0);
  };
  team.run_alone(
      {.work = [](const void* context,
                  const Share& share) { (*static_cast<const std::function<void(const Share&)>*>(context))(share); },
       .context = &work});
  EXPECT_EQ(taken, (std::vector<int>{0, 1, 2, 3, 4}));
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(Team, SleepsWithoutWork) {
  Team team(4);
  run(team, [](const Share&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Three members that spun would take up to 0.6 s, and at least 0.2 s of one processor.
  EXPECT_LT(processor_seconds() - before, 0.05);
}

}  // namespace
}  // namespace braid::cpu
