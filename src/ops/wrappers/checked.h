// An executor that holds another one to account: after each op, everything it wrote is compared with what it should be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ops/executor.h"
#include "ops/wrappers/expected.h"

namespace braid {

// Over executors whose memory the host can read. Before an op runs, its outputs are computed from the same inputs with
// running error bounds (expected.h); then the op runs and each output, inout tensor, cache entry and state slot that it
// writes is compared. `submit` returns when that is done, and throws an Internal error naming op, argument, place,
// error and bound. Later ops start from what the executor wrote, so errors do not pile up.
class CheckedExecutor : public Executor {
 public:
  // `inner` must outlive this.
  CheckedExecutor(Executor& inner, const Precision& precision) : inner_(inner), precision_(precision) {}
  std::string_view name() const override { return inner_.name(); }
  DType activation_type() const override { return inner_.activation_type(); }
  DType cache_type() const override { return inner_.cache_type(); }
  void submit(const Op& op) override;
  void wait() override { inner_.wait(); }
  Limits measure_limits(size_t footprint) override { return inner_.measure_limits(footprint); }
  Memory allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void upload(Tensor to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, Tensor from) override { inner_.download(to, from); }
  // Keeps the plain weight beside the packed one. Only weights packed here may appear in ops.
  Weight pack(Weight plain) override;

  // Per "op argument": the largest error found so far as a share of its bound.
  const std::map<std::string, double>& shares() const { return shares_; }

 private:
  Executor& inner_;
  Precision precision_;
  std::map<std::string, double> shares_;
};

}  // namespace braid
