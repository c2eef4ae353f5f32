// SPDX-License-Identifier: Apache-2.0
#include "base/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace braid {
namespace {

std::atomic<bool> flag{false};
int ends[2] = {-1, -1};  // of a pipe that gets a byte for every Ctrl-C

}  // namespace

void catch_interrupts(Again again) {
  if (ends[0] < 0 && ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    fail(ErrorKind::Resource, "no pipe: {}", std::strerror(errno));
  struct sigaction action {};
  action.sa_handler = [](int) {
    flag = true;
    [[maybe_unused]] const ssize_t written = ::write(ends[1], "", 1);  // a full pipe wakes as well
  };
  action.sa_flags = again == Again::Ends ? static_cast<int>(SA_RESETHAND) : SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
}

const std::atomic<bool>& interrupted() { return flag; }

void check_interrupted() {
  if (flag) throw Interrupted();
}

void forget_interrupts() {
  flag = false;
  char bytes[64];
  while (::read(ends[0], bytes, sizeof bytes) > 0) {
  }
}

int interrupt_descriptor() { return ends[0]; }

}  // namespace braid
