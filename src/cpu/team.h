// A team of threads that run the same work together, with a barrier between its steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace braid::cpu {

// The thread that calls `run` is member 0; the others wait for it, spinning for a moment and then asleep, so that a
// team without work uses no processor. One thread at a time calls `run`. Work that throws is a programmer error.
class Team {
 public:
  explicit Team(int members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int members() const { return static_cast<int>(places_.size()); }
  // Every member calls work(member); returns when all have returned.
  void run(const std::function<void(int)>& work);
  // Waits until every member has called it, then sets the work counter to zero. Within `run` only.
  void barrier();
  std::atomic<int64_t>* counter() { return &counter_; }

  // Memory of one member, and memory of all: at least `bytes`, aligned to 64. It grows and is kept.
  std::byte* workspace(int member, size_t bytes);
  // Every member asks for the same amount; a barrier must lie between two such requests.
  std::byte* shared_workspace(size_t bytes);

 private:
  class Bytes {
   public:
    ~Bytes();
    std::byte* at_least(size_t bytes);

   private:
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
  };
  struct alignas(64) Place {
    Bytes workspace;
  };

  void serve(int member);
  void wait_until_changed(const std::atomic<uint32_t>& word, uint32_t old);

  alignas(64) std::atomic<int64_t> counter_{0};
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
  alignas(64) std::atomic<uint32_t> round_{0};  // one more for each `run`
  std::atomic<bool> ending_{false};
  const std::function<void(int)>* work_ = nullptr;
  std::mutex mutex_;  // of shared_
  Bytes shared_;
  std::vector<Place> places_;
  std::vector<std::thread> threads_;
};

}  // namespace braid::cpu
