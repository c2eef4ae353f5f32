// SPDX-License-Identifier: Apache-2.0
#include "base/memory_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace braid {
namespace {

class MemoryInfoTest : public testing::Test {
 protected:
  MemoryInfoTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "braid_memory_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    write("proc/meminfo", "MemTotal:       1000 kB\nMemFree:   100 kB\nMemAvailable:    600 kB\n");
  }
  ~MemoryInfoTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::filesystem::path root_;
};

TEST_F(MemoryInfoTest, WithoutGroupsTheMachineCounts) {
  const MemoryInfo info = memory_info(root_);
  EXPECT_EQ(info.total, 1000 * 1024);
  EXPECT_EQ(info.available, 600 * 1024);
}

TEST_F(MemoryInfoTest, TheTightestGroupCounts) {
  write("proc/self/cgroup", "0::/slice/unit\n");
  write("sys/fs/cgroup/slice/unit/memory.max", "max\n");
  write("sys/fs/cgroup/slice/memory.max", "500000\n");
  write("sys/fs/cgroup/slice/memory.current", "300000\n");
  write("sys/fs/cgroup/slice/memory.stat", "anon 5\ninactive_file 100000\n");
  const MemoryInfo info = memory_info(root_);
  EXPECT_EQ(info.total, 500000);
  EXPECT_EQ(info.available, 300000);
}

TEST_F(MemoryInfoTest, AContainersOwnGroupIsTheTopOfItsMount) {
  write("proc/self/cgroup", "0::/docker/unseen\n");
  write("sys/fs/cgroup/memory.max", "400000\n");
  write("sys/fs/cgroup/memory.current", "450000\n");
  EXPECT_EQ(memory_info(root_).total, 400000);
  EXPECT_EQ(memory_info(root_).available, 0);
}

TEST_F(MemoryInfoTest, VersionOneIsUnderstood) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/a\n4:memory:/a\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "200000\n");
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "50000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_info(root_).total, 200000);
  EXPECT_EQ(memory_info(root_).available, 150000);
}

TEST(MemoryInfo, ThisMachineHasSome) {
  const MemoryInfo info = memory_info();
  EXPECT_GT(info.available, 0);
  EXPECT_LE(info.available, info.total);
}

}  // namespace
}  // namespace braid
