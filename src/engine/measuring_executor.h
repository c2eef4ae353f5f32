// An executor that runs nothing: forward over it tells how much step memory the same calls need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "ops/executor.h"

namespace braid {

// Stands in for `real` in all that shapes depend on. Memory cannot be had or moved.
class MeasuringExecutor : public Executor {
 public:
  explicit MeasuringExecutor(const Executor& real) : real_(real) {}
  std::string_view name() const override { return real_.name(); }
  DType activation_type() const override { return real_.activation_type(); }
  DType cache_type() const override { return real_.cache_type(); }
  void submit(const Op&) override {}
  void wait() override {}
  Memory allocate(size_t bytes) override { refuse("allocates {} bytes", bytes); }
  void upload(Tensor to, std::span<const std::byte>) override { refuse("uploads to {}", to.describe()); }
  void download(std::span<std::byte>, Tensor from) override { refuse("downloads {}", from.describe()); }
  Weight pack(Weight) override { refuse("packs a weight"); }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> what, Args&&... args) {
    fail(ErrorKind::Internal, "a step {}", fmt::format(what, std::forward<Args>(args)...));
  }
  const Executor& real_;
};

}  // namespace braid
