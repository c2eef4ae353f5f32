// SPDX-License-Identifier: Apache-2.0
#include "weights/vectors.h"

#include <algorithm>

#include "base/error.h"

namespace braid {
namespace {

constexpr size_t kAlignedFloats = 16;  // 64 bytes

Tensor shaped(std::byte* data, const PlannedVector& planned) {
  Tensor out(data, DType::F32, {planned.elements()});
  out.rank = static_cast<int>(planned.shape.size());
  int64_t stride = 1;
  for (size_t dim = planned.shape.size(); dim-- > 0;) {
    out.shape[dim] = planned.shape[dim];
    out.strides[dim] = stride;
    stride *= planned.shape[dim];
  }
  return out;
}

}  // namespace

std::vector<Tensor> upload_vectors(const WeightPlan& plan, Executor& executor,
                                   const std::function<std::vector<float>(const PlannedVector&, size_t)>& values,
                                   std::vector<Memory>& memory) {
  std::vector<float> staged;
  std::vector<size_t> offsets;
  for (size_t i = 0; i < plan.vectors().size(); ++i) {
    const std::vector<float> one = values(plan.vectors()[i], i);
    CHECK(std::ssize(one) == plan.vectors()[i].elements(), "{}", plan.vectors()[i].name);
    offsets.push_back(staged.size());
    staged.insert(staged.end(), one.begin(), one.end());
    staged.resize((staged.size() + kAlignedFloats - 1) / kAlignedFloats * kAlignedFloats);
  }
  std::vector<Tensor> tensors;
  if (staged.empty()) return tensors;
  const auto bytes = std::as_bytes(std::span(staged));
  Memory& block = memory.emplace_back(executor.allocate(bytes.size()));
  executor.upload(Tensor(block.data(), DType::F32, {std::ssize(staged)}), bytes);
  executor.wait();
  for (size_t i = 0; i < offsets.size(); ++i)
    tensors.push_back(shaped(block.data() + offsets[i] * sizeof(float), plan.vectors()[i]));
  return tensors;
}

}  // namespace braid
