// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/interrupt.h"

namespace braid {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string title, uint64_t total, Unit unit)
    : title_(std::move(title)),
      total_(total),
      unit_(unit),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() {
  if (std::exchange(drawn_, false)) fmt::print(stderr, "\r\x1b[K");
}

void Progress::begin(const std::string& name) {
  check_interrupted();
  part_ = " " + name;
  last_ = Clock::now();
  if (terminal_) draw();
}

void Progress::advance(uint64_t amount) {
  done_ = std::min(total_, done_ + amount);
  check_interrupted();
  const auto now = Clock::now();
  if (!terminal_ || now - start_ < std::chrono::milliseconds(300) || now - last_ < std::chrono::milliseconds(50))
    return;
  last_ = now;
  draw();
}

void Progress::draw() {
  drawn_ = true;
  const double share = total_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(total_);
  const double seconds = std::chrono::duration<double>(last_ - start_).count();
  const int filled = static_cast<int>(share * 30);
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  const std::string amount = unit_ == Unit::Bytes
                                 ? fmt::format("{:.2f} GB/s", static_cast<double>(done_) / seconds / 1e9)
                                 : fmt::format("{}/{}", done_, total_);
  fmt::print(stderr, "\r\x1b[K{}{} [{:#<{}}{:-<{}}] {:3.0f}%  {}  {:.0f} s left", title_, part_, "", filled, "",
             30 - filled, share * 100, amount, left);
  std::fflush(stderr);
}

}  // namespace braid
