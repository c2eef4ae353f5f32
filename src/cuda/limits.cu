// SPDX-License-Identifier: Apache-2.0
#include "cuda/limits.h"

#include <algorithm>
#include <vector>

#include "cuda/common/error.h"
#include "cuda/linear/matrix_library.h"

namespace braid::cuda {
namespace {

// Median seconds of `work`, each run between two events.
template <typename Work>
double median_seconds(Context& context, const Work& work) {
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "making an event");
  check(cudaEventCreate(&end), "making an event");
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    check(cudaEventRecord(start, context.stream()), "measuring");
    work();
    check(cudaEventRecord(end, context.stream()), "measuring");
    check(cudaEventSynchronize(end), "measuring");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, end), "measuring");
    if (i >= 2) seconds.push_back(milliseconds * 1e-3);
  }
  cudaEventDestroy(start), cudaEventDestroy(end);
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  return seconds[5];
}

// Numbers of about unit size: products of zeros run faster than any real ones.
__global__ void fill_kernel(__nv_bfloat16* out, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    uint32_t bits = static_cast<uint32_t>(i) * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    out[i] = __float2bfloat16_rn(static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
  }
}

}  // namespace

Limits measure_limits(Context& context, size_t) {
  constexpr size_t kBytes = size_t{2} << 30;
  constexpr int64_t kSide = 8192;
  auto* from = context.take<std::byte>(kBytes);
  auto* to = context.take<std::byte>(kBytes);
  Limits limits;
  limits.copy_bytes_per_second =
      2.0 * kBytes / median_seconds(context, [&] {
        check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice, context.stream()), "copy");
      });
  if (context.matrices() == nullptr) return limits;
  auto* numbers = reinterpret_cast<__nv_bfloat16*>(from);
  fill_kernel<<<1024, 256, 0, context.stream()>>>(numbers, 2 * kSide * kSide);
  const MatrixProduct product{.out = to,
                              .out_bf16 = true,
                              .x = numbers,
                              .w = numbers + kSide * kSide,
                              .tokens = kSide,
                              .rows = kSide,
                              .columns = kSide,
                              .out_stride = kSide,
                              .x_stride = kSide};
  limits.flops_per_second =
      2.0 * kSide * kSide * kSide / median_seconds(context, [&] { context.matrices()->multiply(product); });
  return limits;
}

}  // namespace braid::cuda
