// How much memory this machine, or the container this process lives in, can still give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace braid {

struct MemoryInfo {
  int64_t total = 0;      // bytes that may be used at all
  int64_t available = 0;  // bytes that can be had without swapping; caches that the system can drop count as available
};

// The smaller of what /proc/meminfo says and what each control group (version 2 or 1) above this process leaves.
// Zeroes where nothing can be read. `root` stands in front of every path that is read.
MemoryInfo memory_info(const std::filesystem::path& root = "/");

}  // namespace braid
