// What rounding the operands of products to bf16, and nothing else, does to a whole model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "ops/executor.h"

namespace braid::tests {

// A router's scores of every row, [rows, experts], of which the `chosen` largest choose.
struct Scores {
  int64_t chosen = 0, experts = 0;
  std::vector<float> values;
  bool carried = false;  // a later part carries what a row chose into the rows after it
};

// Computes as `inner` does, which works on the host in f32, but on rounded operands where `round`, and keeps the scores
// that routers saw.
class Rounded : public Executor {
 public:
  Rounded(std::unique_ptr<Executor> inner, bool round) : inner_(std::move(inner)), round_(round) {}
  const std::vector<Scores>& scores() const { return scores_; }

  std::string_view name() const override { return "rounded"; }
  DType activation_type() const override { return inner_->activation_type(); }
  DType cache_type() const override { return inner_->cache_type(); }
  void submit(const Op& op) override;
  void wait() override { inner_->wait(); }
  Memory allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void upload(Tensor to, std::span<const std::byte> from) override { inner_->upload(to, from); }
  void download(std::span<std::byte> to, Tensor from) override { inner_->download(to, from); }
  Weight pack(Weight plain) override { return inner_->pack(std::move(plain)); }

 private:
  // A rounded copy of `x` that lasts until the next op.
  Tensor rounded(const Tensor& x);
  std::unique_ptr<Executor> inner_;
  bool round_;
  std::vector<float> copy_;
  std::vector<Scores> scores_;
};

// Which of so many rows owe nothing to a near tie: a router's choice, in this row or in one that was carried on, whose
// last score is nearer to the next one than rounding moved the two.
std::vector<bool> decided_rows(const std::vector<Scores>& exact, const std::vector<Scores>& rounded, size_t count);

}  // namespace braid::tests
