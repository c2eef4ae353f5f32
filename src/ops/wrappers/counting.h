// An executor that adds up what ops cost by name, and passes them on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>

#include "ops/wrappers/cost.h"
#include "ops/wrappers/passing.h"

namespace braid {

class CountingExecutor : public PassingExecutor {
 public:
  struct Entry {
    int64_t ops = 0;
    Cost cost;
  };
  // `inner` must outlive this.
  explicit CountingExecutor(Executor& inner) : PassingExecutor(inner) {}
  void submit(const Op& op) override {
    Entry& entry = totals_[name_of(op)];
    entry.ops += 1, entry.cost += cost_of(op);
    inner_.submit(op);
  }
  // A replay counts what its recording counted.
  std::unique_ptr<Recording> record(const std::function<void()>& submit_all) override;
  bool replay(Recording& recording) override;

  // By op name; `clear` starts again.
  const std::map<std::string_view, Entry>& totals() const { return totals_; }
  void clear() { totals_.clear(); }

 private:
  std::map<std::string_view, Entry> totals_;
};

}  // namespace braid
