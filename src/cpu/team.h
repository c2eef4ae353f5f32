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

  Share share_of(int member, bool fast);
  void help(int member);
  void barrier();

  // The door to the running task: its number, whether it is closed, and how many helpers are inside. A helper that goes
  // to sleep, and member 0 waiting for helpers to leave, wait for a change of this word.
  static constexpr uint32_t kClosed = 1 << 15, kInside = kClosed - 1;
  static constexpr int kNumberShift = 16;
  alignas(64) std::atomic<uint32_t> door_{kClosed};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};  // at the barrier
  alignas(64) std::atomic<uint32_t> phase_{0};    // barriers passed
  alignas(64) Task task_;
  std::atomic<bool> ending_{false};
  std::mutex mutex_;  // of shared_
  Bytes shared_;
  std::vector<Workspace> workspaces_;
  std::vector<std::thread> threads_;
};

}  // namespace braid::cpu
