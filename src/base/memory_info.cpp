// SPDX-License-Identifier: Apache-2.0
#include "base/memory_info.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace braid {
namespace {

namespace fs = std::filesystem;

// The number that follows `key` at the start of a line.
std::optional<int64_t> number_after(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

// A file's only number; nothing when it is not there or says "max".
std::optional<int64_t> only_number(const fs::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* used;
  const char* cache;  // key in memory.stat: file pages that can be dropped
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

void apply_limit(const fs::path& group, const GroupFiles& files, MemoryInfo& info) {
  const auto limit = only_number(group / files.limit);
  if (!limit) return;
  const int64_t used = only_number(group / files.used).value_or(0);
  const int64_t cache = number_after(group / "memory.stat", files.cache).value_or(0);
  info.total = std::min(info.total, *limit);
  info.available = std::min(info.available, std::max<int64_t>(0, *limit - std::max<int64_t>(0, used - cache)));
}

// Applies the limits of the group at `path` and of all groups above it. In a container the path may name a group of
// the host that is not visible; then the top of the mount is this container's own group.
void apply_groups(const fs::path& mount, const fs::path& path, const GroupFiles& files, MemoryInfo& info) {
  for (fs::path at = path.relative_path(); !at.empty(); at = at.parent_path()) apply_limit(mount / at, files, info);
  apply_limit(mount, files, info);
}

}  // namespace

MemoryInfo memory_info(const fs::path& root) {
  constexpr int64_t kUnit = 1024;  // meminfo counts in kB
  const fs::path meminfo = root / "proc/meminfo";
  MemoryInfo info{.total = kUnit * number_after(meminfo, "MemTotal:").value_or(0),
                  .available = kUnit * number_after(meminfo, "MemAvailable:").value_or(0)};
  // Lines are "hierarchy:controllers:path"; version 2 has no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      apply_groups(root / "sys/fs/cgroup", path, kVersion2, info);
    } else if (controllers == "memory") {
      apply_groups(root / "sys/fs/cgroup/memory", path, kVersion1, info);
    }
  }
  return info;
}

}  // namespace braid
