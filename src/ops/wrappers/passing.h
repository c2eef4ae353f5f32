// An executor that passes everything on: what wrappers change one or two words of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "ops/executor.h"

namespace braid {

// Recording is left out: who wraps an executor says what a replay means to it.
class PassingExecutor : public Executor {
 public:
  // `inner` must outlive this.
  explicit PassingExecutor(Executor& inner) : inner_(inner) {}
  std::string_view name() const override { return inner_.name(); }
  DType activation_type() const override { return inner_.activation_type(); }
  DType cache_type() const override { return inner_.cache_type(); }
  bool rows_independent() const override { return inner_.rows_independent(); }
  void submit(const Op& op) override { inner_.submit(op); }
  void wait() override { inner_.wait(); }
  Limits measure_limits(size_t footprint) override { return inner_.measure_limits(footprint); }
  Memory allocate(size_t bytes) override { return inner_.allocate(bytes); }
  int64_t available_memory() const override { return inner_.available_memory(); }
  int64_t step_rows() const override { return inner_.step_rows(); }
  void upload(Tensor to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, Tensor from) override { inner_.download(to, from); }
  Weight pack(Weight plain) override { return inner_.pack(std::move(plain)); }
  bool pack_copies() const override { return inner_.pack_copies(); }

 protected:
  Executor& inner_;
};

}  // namespace braid
