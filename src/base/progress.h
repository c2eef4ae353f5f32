// A progress bar on stderr for long work; prints nothing where stderr is not a terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace braid {

// Not thread-safe: one thread reports. The bar appears after 0.3 s of work and is wiped when the object dies.
class Progress {
 public:
  enum class Unit { Bytes, Items };
  Progress(std::string title, uint64_t total, Unit unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Throws Interrupted after Ctrl-C, where the program catches it.
  void advance(uint64_t amount);
  // Long work begins that `name` tells of: shown at once.
  void begin(const std::string& name);
  // Wipes the bar until it is drawn again, so that a line can be printed.
  void wipe();

 private:
  void draw();
  std::string title_, part_;
  uint64_t total_, done_ = 0;
  Unit unit_;
  bool terminal_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace braid
