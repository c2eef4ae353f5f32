// Sums over a warp and over a block, in an order that the number of threads fixes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace braid::cuda {

constexpr unsigned kAllLanes = 0xFFFFFFFFu;

template <typename T>
__device__ inline T sum_of_warp(T value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// Every thread gets the sum. `scratch` holds 32 values; blocks have whole warps and at most 1024 threads.
template <typename T>
__device__ inline T sum_of_block(T value, T* scratch) {
  value = sum_of_warp(value);
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += scratch[warp];
  return sum;
}

// The largest of non-negative numbers, for every thread; as sum_of_block.
__device__ inline float max_of_block(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) value = fmaxf(value, scratch[warp]);
  return value;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x * sigmoid(x); }

}  // namespace braid::cuda
