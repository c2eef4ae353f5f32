// Executors that run nothing: one lists ops as text, for the memory plan and `describe --plan`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "ops/executor.h"

namespace braid {

// "linear(x f32[21, 64], out f32[21, 128], weight bf16[128, 64])": arguments by name with their shapes.
std::string describe(const Op& op);

// Passes each op's description to `line`; no address is followed. Memory comes with false addresses, so that models may
// be planned which do not fit; `allocated` adds it up. Weights stay as they are.
class ListingExecutor : public Executor {
 public:
  // Types as those of the executor that the plan is for.
  ListingExecutor(const Executor& like, std::function<void(std::string)> line)
      : activations_(like.activation_type()), cache_(like.cache_type()), line_(std::move(line)) {}
  std::string_view name() const override { return "listing"; }
  DType activation_type() const override { return activations_; }
  DType cache_type() const override { return cache_; }
  void submit(const Op& op) override {
    if (line_) line_(describe(op));
  }
  void wait() override {}
  Memory allocate(size_t bytes) override;
  void upload(Tensor, std::span<const std::byte>) override {}
  void download(std::span<std::byte> to, Tensor from) override;
  Weight pack(Weight plain) override { return plain; }
  size_t allocated() const { return allocated_; }

 private:
  DType activations_, cache_;
  std::function<void(std::string)> line_;
  size_t allocated_ = 0;
};

}  // namespace braid
