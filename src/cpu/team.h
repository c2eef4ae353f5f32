// A team of threads: the caller does the work, and those of the others that are free help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "cpu/share.h"

namespace braid::cpu {

// The thread that calls `run` is member 0 and never waits for a member that has not joined: where the system gives a
// helper's processor to someone else, the work goes on without it. Helpers spin for a moment when there is nothing to
// do and then sleep, so that a team without work uses no processor. One thread at a time calls `run`. Work that throws
// is a programmer error.
class Team {
 public:
  struct Task {
    void (*work)(const void* context, const Share& share) = nullptr;
    const void* context = nullptr;
    bool fast = false;  // handed on in the Share
  };
  static constexpr int kMostMembers = 1024;

  explicit Team(int members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int members() const { return static_cast<int>(workspaces_.size()); }
  // Runs the task with the help of the team; when it returns, so have all who took part.
  void run(const Task& task);
  // Runs it on member 0 alone, without waking anyone.
  void run_alone(const Task& task);

 private:
  friend struct Share;
  class Bytes {
   public:
    ~Bytes();
    std::byte* at_least(size_t bytes);  // aligned to 64; grows, and is kept

   private:
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
  };
  struct alignas(64) Workspace {
    Bytes bytes;
  };
  // Everything that members tell each other at the start and end of a task is one word beside the task, since a cache
  // line takes its time from one processor to another: from the low end items taken, members at the barrier, helpers
  // inside, whether helpers may still join, barriers passed, and the number of the task.
  struct alignas(64) Door {
    std::atomic<uint64_t> state{kClosed};
    Task task;
  };
  static constexpr uint64_t kArrived = uint64_t{1} << 28, kInside = uint64_t{1} << 39, kClosed = uint64_t{1} << 50;
  static constexpr uint64_t kPassed = uint64_t{1} << 51, kNumber = uint64_t{1} << 54;
  static uint64_t arrived(uint64_t state) { return state / kArrived % 2048; }
  static uint64_t inside(uint64_t state) { return state / kInside % 2048; }
  static uint64_t passed(uint64_t state) { return state / kPassed % 8; }

  template <typename Done>
  uint64_t wait_until(Done done);
  void wake();
  void help(int member);
  void barrier(const Share& share);

  Door door_;
  std::atomic<uint64_t> alone_{0};  // the state of tasks that member 0 runs alone
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> bell_{0};
  std::atomic<bool> rung_{false};
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // of shared_
  Bytes shared_;
  std::vector<Workspace> workspaces_;
  std::vector<std::thread> threads_;
};

}  // namespace braid::cpu
