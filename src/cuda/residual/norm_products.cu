// One row: a block an output. Every block adds up the row's squares beside its product, sum of w * (norm * x), which
// the factor of the norm is taken out of. The last block that has read the stream writes it, and the normalised row.
// Bounded by latency: one launch instead of two that wait for each other.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/residual/norm_products.h"

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/common/view.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32, kEach = 8, kMostSteps = 5;
constexpr int64_t kStep = kThreads * kEach;

struct Arguments {
  float *out, *stream;
  const float *add, *weight;
  unsigned* arrived;
  int width;
  float epsilon;
  struct Target {
    View out;
    const uint4* weights;
    unsigned first_block;
  } targets[4];
  int count;
};

// Eight numbers that a thread has of the row.
struct Eight {
  float values[kEach];

  __device__ static Eight load(const float* from) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
  __device__ void store(float* to) const {
    reinterpret_cast<float4*>(to)[0] = {values[0], values[1], values[2], values[3]};
    reinterpret_cast<float4*>(to)[1] = {values[4], values[5], values[6], values[7]};
  }
  __device__ static Eight widened(const uint4& bits) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    Eight out;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      out.values[i] = __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    return out;
  }
};

__device__ Arguments::Target target_of(const Arguments& a) {
  Arguments::Target target = a.targets[0];
#pragma unroll
  for (int i = 1; i < 4; ++i)
    if (i < a.count && blockIdx.x >= a.targets[i].first_block) target = a.targets[i];
  return target;
}

// A thread's part of the row: kSteps times eight numbers.
template <int kSteps>
struct Part {
  uint4 weights[kSteps];
  Eight norm[kSteps], x[kSteps];

  __device__ static int column(int step) { return (step * kThreads + static_cast<int>(threadIdx.x)) * kEach; }
  template <typename Do>
  __device__ static void each(const Arguments& a, const Do& at) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
      if (column(step) < a.width) at(step, column(step));
  }
};

template <int kSteps>
__global__ void __launch_bounds__(kThreads) norm_products_kernel(const __grid_constant__ Arguments a) {
  __shared__ float2 parts[kWarps];
  __shared__ bool last;
  using P = Part<kSteps>;
  P part;
  allow_next();
  const Arguments::Target target = target_of(a);
  const unsigned row = blockIdx.x - target.first_block;
  P::each(a, [&](int step, int column) {
    part.weights[step] = __ldg(target.weights + (int64_t{row} * a.width + column) / kEach);
    part.norm[step] = a.weight != nullptr ? Eight::load(a.weight + column) : Eight{{1, 1, 1, 1, 1, 1, 1, 1}};
  });
  await();
  float2 sums{};  // of squares, and the product
  P::each(a, [&](int step, int column) {
    part.x[step] = Eight::load(a.stream + column);
    const Eight more = a.add != nullptr ? Eight::load(a.add + column) : Eight{}, w = Eight::widened(part.weights[step]);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      float& x = part.x[step].values[i];
      x += more.values[i];
      sums.x += x * x, sums.y += w.values[i] * (part.norm[step].values[i] * x);
    }
  });
  sums = {sum_of_warp(sums.x), sum_of_warp(sums.y)};
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sums;
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(a.arrived, gridDim.x - 1) == gridDim.x - 1;  // which makes it 0 again
  sums = {};
  for (const float2& one : parts) sums.x += one.x, sums.y += one.y;
  const float factor = 1.0f / sqrtf(sums.x / static_cast<float>(a.width) + a.epsilon);
  if (threadIdx.x == 0) put(target.out, row, sums.y * factor);
  __syncthreads();
  if (!last) return;
  P::each(a, [&](int step, int column) {
    Eight& x = part.x[step];
    if (a.add != nullptr) x.store(a.stream + column);
#pragma unroll
    for (int i = 0; i < kEach; ++i) x.values[i] = x.values[i] * factor * part.norm[step].values[i];
    x.store(a.out + column);
  });
}

bool whole(const Tensor& tensor) {
  return !tensor || (tensor.dtype == DType::F32 && reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0);
}

bool fits(const Linear::Target& target, int64_t width) {
  const Codes& codes = codes_of(*target.weight);
  return codes.coding == Coding::BF16 && codes.count == 1 && codes.columns == width && codes.rows > 0 &&
         reinterpret_cast<uintptr_t>(codes.data) % 16 == 0;
}

}  // namespace

bool may_join(const AddNorm& norm) {
  const int64_t width = norm.stream.width();
  return norm.out && norm.stream.rows() == 1 && width % kEach == 0 && width <= kMostSteps * kStep && whole(norm.out) &&
         whole(norm.stream) && whole(norm.add) && whole(norm.weight) && norm.out.data != norm.add.data;
}

bool launch_joined(Context& context, const AddNorm& norm, const Linear& products) {
  const int64_t width = norm.stream.width();
  if (!products.exact || products.x.data != norm.out.data || products.x.dtype != DType::F32 || products.x.rows() != 1 ||
      products.x.width() != width)
    return false;
  Arguments a{.out = norm.out.as<float>(),
              .stream = norm.stream.as<float>(),
              .add = norm.add ? norm.add.as<float>() : nullptr,
              .weight = norm.weight ? norm.weight.as<float>() : nullptr,
              .arrived = reinterpret_cast<unsigned*>(context.flags() + Context::kFlags - 1),
              .width = static_cast<int>(width),
              .epsilon = norm.epsilon};
  unsigned blocks = 0;
  for (const Linear::Target& target : products.targets) {
    if (target.weight == nullptr) break;
    if (!fits(target, width)) return false;
    const Codes& codes = codes_of(*target.weight);
    a.targets[a.count++] = {view(target.out), reinterpret_cast<const uint4*>(codes.data), blocks};
    blocks += static_cast<unsigned>(codes.rows);
  }
  if (blocks == 0) return false;
  constexpr void (*kKernels[kMostSteps])(Arguments) = {norm_products_kernel<1>, norm_products_kernel<2>,
                                                       norm_products_kernel<3>, norm_products_kernel<4>,
                                                       norm_products_kernel<5>};
  start(context, kKernels[(width - 1) / kStep], {.grid = blocks, .block = kThreads}, a);
  return true;
}

}  // namespace braid::cuda
