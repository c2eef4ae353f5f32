// An executor that waits for every op and adds up how long each kind took.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "ops/executor.h"

namespace braid {

// Times hold the launch and the wait of each op as well, so their sum is more than a step's time.
class TimingExecutor : public Executor {
 public:
  struct Entry {
    int64_t ops = 0;
    double seconds = 0;
  };
  // `inner` must outlive this.
  explicit TimingExecutor(Executor& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  DType activation_type() const override { return inner_.activation_type(); }
  DType cache_type() const override { return inner_.cache_type(); }
  void submit(const Op& op) override {
    inner_.wait();
    const auto start = std::chrono::steady_clock::now();
    inner_.submit(op);
    inner_.wait();
    Entry& entry = totals_[name_of(op)];
    entry.ops += 1;
    entry.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void wait() override { inner_.wait(); }
  Limits measure_limits(size_t footprint) override { return inner_.measure_limits(footprint); }
  Memory allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void upload(Tensor to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, Tensor from) override { inner_.download(to, from); }
  Weight pack(Weight plain) override { return inner_.pack(std::move(plain)); }
  bool pack_copies() const override { return inner_.pack_copies(); }

  // By op name; `clear` starts again.
  const std::map<std::string_view, Entry>& totals() const { return totals_; }
  void clear() { totals_.clear(); }

 private:
  Executor& inner_;
  std::map<std::string_view, Entry> totals_;
};

}  // namespace braid
