// Head norms, rotation, and the store into the cache: one warp a head, bounded by launch latency and memory. And the
// output gate.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/attention/rows.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 4;

struct Arguments {
  View q, k, v;
  const float *q_norm, *k_norm, *frequencies;
  int pairs;
  float epsilon, rope_scale;
  RowsView rows;
  CacheView cache;
};

// Calls take(i, number) for the numbers of a head that are this lane's. Eight at a time are asked for before the first
// is used.
template <typename Take>
__device__ void each(const View& from, int64_t at, const Take& take) {
  constexpr int kTogether = 8;
  const int size = static_cast<int>(from.shape[2]);
  for (int first = threadIdx.x % 32; first < size; first += 32 * kTogether) {
    float x[kTogether];
    const auto load = [&](const auto* numbers) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) x[i] = numbers[at + min(first + 32 * i, size - 1)];
    };
    from.bf16 ? load(static_cast<const __nv_bfloat16*>(from.data)) : load(static_cast<const float*>(from.data));
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      if (first + 32 * i < size) take(first + 32 * i, x[i]);
  }
}

// What a warp keeps in shared memory: the head, before it the norm's weights, and the turns of its pairs.
struct Held {
  float* head;
  float2* turns;  // cosine and sine

  __device__ Held(float* memory, const Arguments& a)
      : head(memory + 2 * kWarps * a.pairs + threadIdx.x / 32 * a.q.shape[2]),
        turns(reinterpret_cast<float2*>(memory) + threadIdx.x / 32 * a.pairs) {}
  // What no launch writes.
  __device__ void get_ready(const float* norm, const Arguments& a, int32_t position) const {
    const int lane = threadIdx.x % 32;
    for (int i = lane; i < a.q.shape[2]; i += 32) head[i] = norm == nullptr ? 1.0f : norm[i];
    for (int i = lane; i < a.pairs; i += 32) {
      const float angle = static_cast<float>(position) * a.frequencies[i];
      turns[i] = {cosf(angle) * a.rope_scale, sinf(angle) * a.rope_scale};
    }
  }
  // Loads the head, normalised and rotated.
  __device__ void load(const View& from, int64_t at, bool normalised, const Arguments& a) const {
    const int lane = threadIdx.x % 32, size = static_cast<int>(from.shape[2]);
    float squares = 0, factor = 1;
    if (normalised) {
      each(from, at, [&](int, float x) { squares += x * x; });
      factor = 1.0f / sqrtf(sum_of_warp(squares) / static_cast<float>(size) + a.epsilon);
    }
    each(from, at, [&](int i, float x) { head[i] = x * (factor * head[i]); });
    __syncwarp();
    for (int i = lane; i < a.pairs; i += 32) {
      const float x = head[i], y = head[i + a.pairs];
      head[i] = x * turns[i].x - y * turns[i].y;
      head[i + a.pairs] = y * turns[i].x + x * turns[i].y;
    }
    __syncwarp();
  }
};

__global__ void heads_kernel(Arguments a) {
  extern __shared__ float memory[];
  allow_next();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = blockIdx.x, unit = blockIdx.y * int64_t{kWarps} + warp;
  const int64_t queries = a.q.shape[1], keys = a.k.shape[1];
  if (unit >= queries + 2 * keys) return;
  const int32_t position = a.rows.positions[row];
  const Held held(memory, a);
  const float* norm = unit < queries ? a.q_norm : a.k_norm;
  if (unit < queries + keys) held.get_ready(norm, a, position);
  const int64_t place = place_of(a.cache, sequence_of(a.rows, static_cast<int32_t>(row)), position);
  await();
  if (unit < queries) {
    const int64_t at = row * a.q.stride[0] + unit * a.q.stride[1];
    held.load(a.q, at, norm != nullptr, a);
    for (int i = lane; i < a.q.shape[2]; i += 32) put(a.q, at + i, held.head[i]);
    return;
  }
  if (unit < queries + keys) {
    const int64_t h = unit - queries;
    held.load(a.k, row * a.k.stride[0] + h * a.k.stride[1], norm != nullptr, a);
    const int64_t to = place * a.cache.keys.stride[1] + h * a.cache.keys.stride[2];
    for (int i = lane; i < a.k.shape[2]; i += 32) put(a.cache.keys, to + i, held.head[i]);
    return;
  }
  const int64_t h = unit - queries - keys;
  const int64_t to = place * a.cache.values.stride[1] + h * a.cache.values.stride[2];
  each(a.v, row * a.v.stride[0] + h * a.v.stride[1], [&](int i, float x) { put(a.cache.values, to + i, x); });
}

__global__ void gate_kernel(View x, View gate) {
  await_earlier();
  const int64_t row = blockIdx.x, head = blockIdx.y;
  const int64_t to = row * x.stride[0] + head * x.stride[1], from = row * gate.stride[0] + head * gate.stride[1];
  for (int64_t i = threadIdx.x; i < x.shape[2]; i += blockDim.x)
    put(x, to + i, get(x, to + i) * sigmoid(get(gate, from + i)));
}

}  // namespace

void launch(Context& context, const PrepareHeads& op) {
  if (op.rows.tokens == 0) return;
  const Arguments a{.q = view(op.q),
                    .k = view(op.k),
                    .v = view(op.v),
                    .q_norm = op.q_norm.as<float>(),
                    .k_norm = op.k_norm.as<float>(),
                    .frequencies = op.rope.frequencies.as<float>(),
                    .pairs = op.rope.frequencies ? static_cast<int>(op.rope.frequencies.elements()) : 0,
                    .epsilon = op.epsilon,
                    .rope_scale = op.rope.scale,
                    .rows = rows_view(op.rows),
                    .cache = cache_view(op.cache)};
  const auto units = static_cast<unsigned>(op.q.size(1) + 2 * op.k.size(1));
  const dim3 grid(static_cast<unsigned>(op.rows.tokens), (units + kWarps - 1) / kWarps);
  const size_t shared = kWarps * (static_cast<size_t>(op.q.width()) + 2 * static_cast<size_t>(a.pairs)) * sizeof(float);
  start(context, heads_kernel, {.grid = grid, .block = kWarps * 32, .shared = shared}, a);
}

void launch(Context& context, const GateBy& op) {
  if (op.x.elements() == 0) return;
  const dim3 grid(static_cast<unsigned>(op.x.size(0)), static_cast<unsigned>(op.x.size(1)));
  const auto threads = static_cast<unsigned>(std::min<int64_t>((op.x.width() + 31) / 32 * 32, 256));
  start(context, gate_kernel, {.grid = grid, .block = threads}, view(op.x), view(op.gate));
}

}  // namespace braid::cuda
