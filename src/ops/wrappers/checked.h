// An executor that holds another one to account: after each op, everything it wrote is compared with what it should be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ops/wrappers/expected.h"
#include "ops/wrappers/passing.h"

namespace braid {

// Over executors whose memory the host can read. Before an op runs, its outputs are computed from the same inputs with
// running error bounds (expected.h); then the op runs and each output, inout tensor, cache entry and state slot that it
// writes is compared. `submit` returns when that is done, and throws an Internal error naming op, argument, place,
// error and bound. Later ops start from what the executor wrote, so errors do not pile up.
class CheckedExecutor : public PassingExecutor {
 public:
  // `inner` must outlive this.
  CheckedExecutor(Executor& inner, const Precision& precision) : PassingExecutor(inner), precision_(precision) {}
  void submit(const Op& op) override;
  // Keeps the plain weight beside the packed one. Only weights packed here may appear in ops.
  Weight pack(Weight plain) override;
  bool pack_copies() const override { return false; }

  // Per "op argument": the largest error found so far as a share of its bound.
  const std::map<std::string, double>& shares() const { return shares_; }

 private:
  Precision precision_;
  std::map<std::string, double> shares_;
};

}  // namespace braid
