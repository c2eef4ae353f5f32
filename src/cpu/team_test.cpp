// SPDX-License-Identifier: Apache-2.0
#include "cpu/team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <vector>

#include "cpu/share.h"

namespace braid::cpu {
namespace {

TEST(Team, EveryMemberRunsOncePerCall) {
  for (const int members : {1, 2, 3, 9}) {
    Team team(members);
    std::vector<std::atomic<int>> calls(static_cast<size_t>(members));
    for (int round = 0; round < 100; ++round) team.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 100);
  }
}

// More members than processors: a barrier that only spins would need a time slice per member.
TEST(Team, ABarrierHoldsBackAllUntilTheLastArrives) {
  for (const int members : {2, 5, 8}) {
    Team team(members);
    std::atomic<int> inside{0};
    std::atomic<bool> wrong{false};
    team.run([&](int) {
      for (int phase = 1; phase <= 200; ++phase) {
        ++inside;
        team.barrier();
        if (inside < phase * members) wrong = true;
        team.barrier();
      }
    });
    EXPECT_FALSE(wrong);
    EXPECT_EQ(inside, 200 * members);
  }
}

TEST(Team, EveryBlockIsTakenOnceAndABarrierStartsAgain) {
  Team team(4);
  std::vector<std::atomic<int>> first(1000), second(500);
  team.run([&](int member) {
    const Share share{.member = member, .members = 4, .team = &team, .next = team.counter()};
    for (int64_t i = share.take(1000); i >= 0; i = share.take(1000)) ++first[static_cast<size_t>(i)];
    share.barrier();
    for (int64_t i = share.take(500); i >= 0; i = share.take(500)) ++second[static_cast<size_t>(i)];
  });
  for (const auto& count : first) EXPECT_EQ(count, 1);
  for (const auto& count : second) EXPECT_EQ(count, 1);
}

TEST(Team, WorkspacesAreAlignedOwnedAndGrow) {
  Team team(3);
  std::vector<std::byte*> own(3), shared(3);
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    team.run([&](int member) {
      const Share share{.member = member, .members = 3, .team = &team, .next = team.counter()};
      const auto place = static_cast<size_t>(member);
      own[place] = share.workspace(bytes);
      shared[place] = share.shared_workspace(bytes);
      own[place][bytes - 1] = std::byte{1};
      share.barrier();
      shared[place][bytes - 1] = std::byte{1};
    });
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(own[i]) % 64, 0u);
      EXPECT_EQ(shared[i], shared[0]);
      for (size_t j = 0; j < i; ++j) EXPECT_NE(own[i], own[j]);
    }
  }
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

TEST(Team, SleepsWithoutWork) {
  Team team(4);
  team.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Three members that spun would take up to 0.6 s, and at least 0.2 s of one processor.
  EXPECT_LT(processor_seconds() - before, 0.05);
}

}  // namespace
}  // namespace braid::cpu
