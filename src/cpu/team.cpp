// SPDX-License-Identifier: Apache-2.0
#include "cpu/team.h"

#include <immintrin.h>

#include <new>

#include "base/error.h"
#include "cpu/share.h"

namespace braid::cpu {
namespace {

// About 60 microseconds on the machines this was measured on: longer than what lies between two decode steps, short
// enough that a waiting team takes no noticeable share of a processor that others want.
constexpr int kSpins = 4000;
constexpr size_t kAlignment = 64;

}  // namespace

Team::Bytes::~Bytes() { ::operator delete (data_, std::align_val_t{kAlignment}); }

std::byte* Team::Bytes::at_least(size_t bytes) {
  if (bytes > bytes_) {
    ::operator delete (data_, std::align_val_t{kAlignment});
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}));
    bytes_ = bytes;
  }
  return data_;
}

Team::Team(int members) : places_(static_cast<size_t>(members)) {
  CHECK(members >= 1, "members={}", members);
  for (int member = 1; member < members; ++member) threads_.emplace_back([this, member] { serve(member); });
}

Team::~Team() {
  ending_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::wait_until_changed(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (word.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  word.wait(old, std::memory_order_acquire);
}

void Team::serve(int member) {
  for (uint32_t round = 0;; ++round) {
    wait_until_changed(round_, round);
    if (ending_.load(std::memory_order_relaxed)) return;
    (*work_)(member);
    barrier();
  }
}

void Team::run(const std::function<void(int)>& work) {
  if (members() == 1) return work(0);
  work_ = &work;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  barrier();
}

void Team::barrier() {
  const auto members = static_cast<uint32_t>(places_.size());
  if (members == 1) return counter_.store(0, std::memory_order_relaxed);
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    counter_.store(0, std::memory_order_relaxed);
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_until_changed(phase_, phase);
  }
}

std::byte* Team::workspace(int member, size_t bytes) {
  return places_[static_cast<size_t>(member)].workspace.at_least(bytes);
}

std::byte* Team::shared_workspace(size_t bytes) {
  const std::lock_guard lock(mutex_);
  return shared_.at_least(bytes);
}

void Share::barrier() const {
  if (members > 1) return team->barrier();
  next->store(0, std::memory_order_relaxed);
}

std::byte* Share::workspace(size_t bytes) const { return team->workspace(member, bytes); }

std::byte* Share::shared_workspace(size_t bytes) const { return team->shared_workspace(bytes); }

}  // namespace braid::cpu
