// An executor that records by keeping the ops: for tests of replay on executors without a faster form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "ops/wrappers/passing.h"

namespace braid {

class RecordingExecutor : public PassingExecutor {
 public:
  // `inner` must outlive this.
  explicit RecordingExecutor(Executor& inner) : PassingExecutor(inner) {}
  void submit(const Op& op) override {
    if (kept_ != nullptr) kept_->ops.push_back(op);
    inner_.submit(op);
  }
  std::unique_ptr<Recording> record(const std::function<void()>& submit_all) override {
    auto ops = std::make_unique<Ops>();
    kept_ = ops.get();
    submit_all();
    kept_ = nullptr;
    ++recorded_;
    return ops;
  }
  bool replay(Recording& recording) override {
    if (stale_) return false;
    for (const Op& op : static_cast<Ops&>(recording).ops) inner_.submit(op);
    ++replayed_;
    return true;
  }

  int64_t recorded() const { return recorded_; }
  int64_t replayed() const { return replayed_; }
  // From now on, or no longer, recordings are refused as executors do whose memory has moved.
  void refuse_replays(bool refuse) { stale_ = refuse; }

 private:
  struct Ops final : Recording {
    std::vector<Op> ops;
  };
  Ops* kept_ = nullptr;
  bool stale_ = false;
  int64_t recorded_ = 0, replayed_ = 0;
};

}  // namespace braid
