// Penalties and masks on logits: a thread an entry, a thread a logit; bounded by launch latency.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cuda/common/view.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

struct Arguments {
  float* logits;
  int64_t logits_stride, penalties_stride, entries_stride;
  const int32_t* starts;
  const std::byte* entries;
  const float* penalties;
};

__global__ void penalise_kernel(Arguments a) {
  const int64_t row = blockIdx.x;
  const float* penalty = a.penalties + row * a.penalties_stride;
  const double repetition = penalty[0], frequency = penalty[1], presence = penalty[2];
  for (int64_t e = a.starts[row] + static_cast<int64_t>(threadIdx.x); e < a.starts[row + 1]; e += blockDim.x) {
    const auto& entry = *reinterpret_cast<const TokenEntry*>(a.entries + e * a.entries_stride);
    float& logit = a.logits[row * a.logits_stride + entry.token];
    double z = logit;
    if (entry.seen != 0) z = z > 0 ? z / repetition : z * repetition;
    z = z - frequency * entry.count - presence * (entry.count > 0 ? 1 : 0) + entry.bias;
    logit = static_cast<float>(z);
  }
}

struct Masking {
  float* logits;
  const uint32_t* mask;
  int64_t logits_stride, mask_stride, vocabulary;
};

__global__ void mask_kernel(Masking a) {
  const int64_t row = blockIdx.y, i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= a.vocabulary) return;
  if ((a.mask[row * a.mask_stride + i / 32] >> (i % 32) & 1) == 0) a.logits[row * a.logits_stride + i] = -INFINITY;
}

}  // namespace

void launch(Context& context, const Penalise& op) {
  if (op.logits.rows() == 0) return;
  const Arguments arguments{.logits = op.logits.as<float>(),
                            .logits_stride = op.logits.stride(0),
                            .penalties_stride = op.penalties.stride(0),
                            .entries_stride = op.entries.stride(0),
                            .starts = op.starts.as<int32_t>(),
                            .entries = op.entries.data,
                            .penalties = op.penalties.as<float>()};
  penalise_kernel<<<static_cast<unsigned>(op.logits.rows()), 128, 0, context.stream()>>>(arguments);
}

void launch(Context& context, const MaskTokens& op) {
  if (op.logits.elements() == 0) return;
  const Masking arguments{.logits = op.logits.as<float>(),
                          .mask = op.mask.as<uint32_t>(),
                          .logits_stride = op.logits.stride(0),
                          .mask_stride = op.mask.rows() == 1 ? 0 : op.mask.stride(0),
                          .vocabulary = op.logits.width()};
  const dim3 grid(static_cast<unsigned>((op.logits.width() + 255) / 256), static_cast<unsigned>(op.logits.rows()));
  mask_kernel<<<grid, 256, 0, context.stream()>>>(arguments);
}

}  // namespace braid::cuda
