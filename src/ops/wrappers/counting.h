// An executor that adds up what ops cost by name, and passes them on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>

#include "ops/executor.h"
#include "ops/wrappers/cost.h"

namespace braid {

class CountingExecutor : public Executor {
 public:
  struct Entry {
    int64_t ops = 0;
    Cost cost;
  };
  // `inner` must outlive this.
  explicit CountingExecutor(Executor& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  DType activation_type() const override { return inner_.activation_type(); }
  DType cache_type() const override { return inner_.cache_type(); }
  void submit(const Op& op) override {
    Entry& entry = totals_[name_of(op)];
    entry.ops += 1, entry.cost += cost_of(op);
    inner_.submit(op);
  }
  void wait() override { inner_.wait(); }
  // A replay counts what its recording counted.
  std::unique_ptr<Recording> record(const std::function<void()>& submit_all) override;
  bool replay(Recording& recording) override;
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
