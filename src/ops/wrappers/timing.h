// An executor that waits for every op and adds up how long each kind took.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "ops/wrappers/passing.h"

namespace braid {

// Times hold the launch and the wait of each op as well, so their sum is more than a step's time.
class TimingExecutor : public PassingExecutor {
 public:
  struct Entry {
    int64_t ops = 0;
    double seconds = 0;
  };
  // `inner` must outlive this.
  explicit TimingExecutor(Executor& inner) : PassingExecutor(inner) {}
  void submit(const Op& op) override {
    inner_.wait();
    const auto start = std::chrono::steady_clock::now();
    inner_.submit(op);
    inner_.wait();
    Entry& entry = totals_[name_of(op)];
    entry.ops += 1;
    entry.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // By op name; `clear` starts again.
  const std::map<std::string_view, Entry>& totals() const { return totals_; }
  void clear() { totals_.clear(); }

 private:
  std::map<std::string_view, Entry> totals_;
};

}  // namespace braid
