// SPDX-License-Identifier: Apache-2.0
#include "cpu/team.h"

#include <immintrin.h>

#include <new>

#include "base/error.h"

namespace braid::cpu {
namespace {

// About 100 microseconds: longer than what lies between two decode steps, short enough that a waiting team takes no
// noticeable share of a processor that others want.
constexpr int kSpins = 4000;
constexpr size_t kAlignment = 64;

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
  CHECK(members >= 1 && members <= kMostMembers, "members={}", members);
  for (int member = 1; member < members; ++member) threads_.emplace_back([this, member] { help(member); });
}

Team::~Team() {
  ending_.store(true);
  bell_.fetch_add(1);
  bell_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// The first state that satisfies `done`: spins for it, then sleeps until `wake`. Whoever brings such a state about
// calls `wake` after a full barrier, or changes the state again later and calls it then.
template <typename Done>
uint64_t Team::wait_until(Done done) {
  uint64_t state = 0;
  for (int spin = 0; spin < kSpins; ++spin) {
    state = door_.state.load(std::memory_order_acquire);
    if (done(state)) return state;
    _mm_pause();
  }
  sleepers_.fetch_add(1);
  for (;;) {
    rung_.exchange(false);
    const uint32_t bell = bell_.load();
    state = door_.state.load();
    if (done(state)) break;
    bell_.wait(bell);
  }
  sleepers_.fetch_sub(1);
  return state;
}

// Rings once until a sleeper has heard it: the system may take long to give it a processor, and ringing is not free.
void Team::wake() {
  if (sleepers_.load() == 0 || rung_.exchange(true)) return;
  bell_.fetch_add(1);
  bell_.notify_all();
}

void Team::help(int member) {
  uint64_t number = 0;  // of the task joined last
  for (;;) {
    uint64_t state = wait_until([&](uint64_t s) {
      return ending_.load(std::memory_order_relaxed) ||
             ((s & kClosed) == 0 && arrived(s) <= inside(s) && s / kNumber != number);
    });
    if (ending_.load(std::memory_order_relaxed)) return;
    // Joins and takes an item at once.
    if (!door_.state.compare_exchange_strong(state, state + kInside + 1, std::memory_order_acquire)) continue;
    number = state / kNumber;
    const Share share{.member = member,
                      .members = members(),
                      .team = this,
                      .fast = door_.task.fast,
                      .state = &door_.state,
                      .held = static_cast<int64_t>(state & Share::kTaken),
                      .skip = static_cast<int>(passed(state))};
    door_.task.work(door_.task.context, share);
    state = door_.state.fetch_sub(kInside, std::memory_order_seq_cst) - kInside;
    if ((state & kClosed) != 0 && inside(state) == 0) wake();
  }
}

void Team::run(const Task& task) {
  if (members() == 1) return run_alone(task);
  const uint64_t before = door_.state.load(std::memory_order_relaxed);
  door_.task = task;
  // Open, nobody inside, and the first item taken for member 0. A helper that falls asleep at this very moment may miss
  // the bell; it hears that of the next task.
  door_.state.store((before / kNumber + 1) * kNumber + 1, std::memory_order_release);
  wake();
  const Share share{
      .member = 0, .members = members(), .team = this, .fast = task.fast, .state = &door_.state, .held = 0};
  task.work(task.context, share);
  const uint64_t state = door_.state.fetch_or(kClosed, std::memory_order_acquire);
  if (inside(state) != 0) wait_until([](uint64_t s) { return inside(s) == 0; });
}

void Team::run_alone(const Task& task) {
  alone_.store(0, std::memory_order_relaxed);
  const Share share{.member = 0, .members = 1, .team = this, .fast = task.fast, .state = &alone_};
  task.work(task.context, share);
}

void Team::barrier(const Share& share) {
  const uint64_t state = door_.state.fetch_add(kArrived, std::memory_order_acq_rel);
  share.held = -1;
  if (arrived(state) == inside(state)) {
    // Nobody joins while all have arrived, and nobody takes items, so the state is this member's to set.
    share.held = 0;
    const uint64_t rest = state - state % kInside;
    door_.state.exchange(rest + kPassed + 1, std::memory_order_seq_cst);
    wake();
  } else {
    wait_until([&](uint64_t s) { return passed(s) != passed(state); });
  }
}

void Share::barrier() const {
  if (skip > 0) {
    --skip;
    return;
  }
  if (members > 1) return team->barrier(*this);
  held = -1;
  state->store(0, std::memory_order_relaxed);
}

std::byte* Share::workspace(size_t bytes) const {
  return team->workspaces_[static_cast<size_t>(member)].bytes.at_least(bytes);
}

std::byte* Share::shared_workspace(size_t bytes) const {
  const std::lock_guard lock(team->mutex_);
  return team->shared_.at_least(bytes);
}

}  // namespace braid::cpu
