// SPDX-License-Identifier: Apache-2.0
#include "cpu/team.h"

#include <immintrin.h>

#include <new>

#include "base/error.h"

namespace braid::cpu {
namespace {

// About 60 microseconds: longer than what lies between two decode steps, short enough that a waiting team takes no
// noticeable share of a processor that others want.
constexpr int kSpins = 4000;
constexpr size_t kAlignment = 64;

// Waits until the word differs from `old`, spinning first.
uint32_t next_value(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    const uint32_t value = word.load(std::memory_order_acquire);
    if (value != old) return value;
    _mm_pause();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

}  // namespace

Team::Bytes::~Bytes() { ::operator delete (data_, std::align_val_t{kAlignment}); }

std::byte* Team::Bytes::at_least(size_t bytes) {
  if (bytes > bytes_) {
    ::operator delete (data_, std::align_val_t{kAlignment});
    data_ = nullptr;
    bytes_ = 0;
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}));
    bytes_ = bytes;
  }
  return data_;
}

Team::Team(int members) : workspaces_(static_cast<size_t>(members)) {
  CHECK(members >= 1 && members <= static_cast<int>(kInside), "members={}", members);
  for (int member = 1; member < members; ++member) threads_.emplace_back([this, member] { help(member); });
}

Team::~Team() {
  ending_.store(true, std::memory_order_relaxed);
  // A number that no helper can have seen: an earlier one would be the value that a sleeping helper waits to change.
  door_.fetch_add(1u << kNumberShift, std::memory_order_release);
  door_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Share Team::share_of(int member, bool fast) {
  return {.member = member, .members = members(), .team = this, .next = &next_, .fast = fast};
}

void Team::help(int member) {
  uint32_t number = 0;  // of the task joined last
  for (uint32_t door = door_.load(std::memory_order_acquire);;) {
    if (ending_.load(std::memory_order_relaxed)) return;
    if ((door & kClosed) != 0 || door >> kNumberShift == number) {
      door = next_value(door_, door);
      continue;
    }
    if (!door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire)) continue;
    number = door >> kNumberShift;
    task_.work(task_.context, share_of(member, task_.fast));
    door = door_.fetch_sub(1, std::memory_order_release) - 1;
    if ((door & kInside) == 0 && (door & kClosed) != 0) door_.notify_all();
  }
}

void Team::run(const Task& task) {
  if (members() == 1) return run_alone(task);
  task_ = task;
  next_.store(0, std::memory_order_relaxed);
  const uint32_t number = (door_.load(std::memory_order_relaxed) >> kNumberShift) + 1;
  door_.store(number << kNumberShift, std::memory_order_release);
  door_.notify_all();
  task.work(task.context, share_of(0, task.fast));
  uint32_t door = door_.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
  while ((door & kInside) != 0) door = next_value(door_, door);
}

void Team::run_alone(const Task& task) {
  Share share = share_of(0, task.fast);
  share.members = 1;
  next_.store(0, std::memory_order_relaxed);
  task.work(task.context, share);
}

void Team::barrier() {
  const uint32_t inside = (door_.fetch_or(kClosed, std::memory_order_relaxed) & kInside) + 1;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == inside) {
    next_.store(0, std::memory_order_relaxed);
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  } else {
    while (next_value(phase_, phase) == phase) {
    }
  }
}

void Share::barrier() const {
  if (members > 1) return team->barrier();
  next->store(0, std::memory_order_relaxed);
}

std::byte* Share::workspace(size_t bytes) const {
  return team->workspaces_[static_cast<size_t>(member)].bytes.at_least(bytes);
}

std::byte* Share::shared_workspace(size_t bytes) const {
  const std::lock_guard lock(team->mutex_);
  return team->shared_.at_least(bytes);
}

}  // namespace braid::cpu
