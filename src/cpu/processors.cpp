// SPDX-License-Identifier: Apache-2.0
#include "cpu/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

namespace braid::cpu {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return out;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) out.push_back(processor);
  return out;
}

}  // namespace

int count_cores(const std::string& folder, std::span<const int> processors) {
  std::set<std::string> cores;
  for (const int processor : processors) {
    const std::string siblings =
        read_line(folder + "/cpu" + std::to_string(processor) + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "alone " + std::to_string(processor) : siblings);
  }
  return static_cast<int>(cores.size());
}

int granted_processors(std::string_view cpu_max) {
  std::istringstream words{std::string(cpu_max)};
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || !(quota > 0) || !(period > 0)) return 0;
  return static_cast<int>(std::clamp(std::round(quota / period), 1.0, 1e6));
}

int useful_threads() {
  // Where the system shows neither, the standard library's guess has to do.
  int threads = count_cores("/sys/devices/system/cpu", allowed_processors());
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int granted = granted_processors(read_line("/sys/fs/cgroup/cpu.max"));
  return granted > 0 ? std::min(threads, granted) : threads;
}

}  // namespace braid::cpu
