// SPDX-License-Identifier: Apache-2.0
#include "cpu/processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace braid::cpu {
namespace {

TEST(Processors, SiblingsAreOneCore) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "braid_processors_test";
  const char* siblings[] = {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"};
  for (int i = 0; i < 8; ++i) {
    const auto place = folder / ("cpu" + std::to_string(i)) / "topology";
    std::filesystem::create_directories(place);
    std::ofstream(place / "thread_siblings_list") << siblings[i] << "\n";
  }
  const int all[] = {0, 1, 2, 3, 4, 5, 6, 7}, some[] = {1, 5, 6}, unknown[] = {1, 5, 20, 21};
  EXPECT_EQ(count_cores(folder, all), 4);
  EXPECT_EQ(count_cores(folder, some), 2);
  EXPECT_EQ(count_cores(folder, unknown), 3);
  EXPECT_EQ(count_cores(folder, {}), 0);
  std::filesystem::remove_all(folder);
}

TEST(Processors, AControlGroupMayGrantFewer) {
  EXPECT_EQ(granted_processors("max 100000"), 0);
  EXPECT_EQ(granted_processors("200000 100000"), 2);
  EXPECT_EQ(granted_processors("1000 100000"), 1);
  EXPECT_EQ(granted_processors("370000 100000"), 4);
  EXPECT_EQ(granted_processors(""), 0);
  EXPECT_EQ(granted_processors("5 0"), 0);
  EXPECT_EQ(granted_processors("-1 100000"), 0);
}

TEST(Processors, ThisMachineHasSome) { EXPECT_GE(useful_threads(), 1); }

}  // namespace
}  // namespace braid::cpu
