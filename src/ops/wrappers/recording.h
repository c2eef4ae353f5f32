// An executor that records by keeping the ops: for tests of replay on executors without a faster form.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "ops/executor.h"

namespace braid {

class RecordingExecutor : public Executor {
 public:
  // `inner` must outlive this.
  explicit RecordingExecutor(Executor& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  DType activation_type() const override { return inner_.activation_type(); }
  DType cache_type() const override { return inner_.cache_type(); }
  void submit(const Op& op) override {
    if (kept_ != nullptr) kept_->ops.push_back(op);
    inner_.submit(op);
  }
  void wait() override { inner_.wait(); }
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
  Limits measure_limits(size_t footprint) override { return inner_.measure_limits(footprint); }
  Memory allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void upload(Tensor to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, Tensor from) override { inner_.download(to, from); }
  Weight pack(Weight plain) override { return inner_.pack(std::move(plain)); }
  bool pack_copies() const override { return inner_.pack_copies(); }

  int64_t recorded() const { return recorded_; }
  int64_t replayed() const { return replayed_; }
  // From now on, or no longer, recordings are refused as executors do whose memory has moved.
  void refuse_replays(bool refuse) { stale_ = refuse; }

 private:
  struct Ops final : Recording {
    std::vector<Op> ops;
  };
  Executor& inner_;
  Ops* kept_ = nullptr;
  bool stale_ = false;
  int64_t recorded_ = 0, replayed_ = 0;
};

}  // namespace braid
