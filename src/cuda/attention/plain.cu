// Attention in f32, for rows, layouts and head sizes of any kind. A block takes one row and some query heads of one
// group; its warps take batches of positions in turn, a lane holds a slice of the head. Scores of a batch are reduced
// over the lanes by halving, so that each lane ends with one score and takes one exponential. Long contexts of few rows
// are cut into splits that a second kernel joins. Bounded by memory for single rows of long contexts, by instructions
// for prompts.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cuda/attention/kernels.h"
#include "cuda/attention/select.h"
#include "cuda/common/reduce.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 4;

struct Arguments {
  View out, q;
  RowsView rows;
  CacheView cache;
  float scale;
  int64_t window;
  int group;   // query heads of one kv head
  int splits;  // partial results go to `partial` where it is above 1
  int32_t first_row;
  float* partial;
};

// `kSlice` consecutive numbers of a head, from element lane * kSlice on; 0 beyond the head. Packed: bf16 that begins at
// 2 * kSlice bytes, all of a head of 32 * kSlice.
template <int kSlice, bool kPacked>
struct Slice {
  uint32_t words[kPacked ? kSlice / 2 : kSlice];

  __device__ void load(const View& from, int64_t at, int size) {
    const int first = static_cast<int>(threadIdx.x) % 32 * kSlice;
    if constexpr (kPacked && kSlice == 8) {
      const uint4 bits = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(from.data) + at + first);
      words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
    } else if constexpr (kPacked) {
      const uint2 bits = *reinterpret_cast<const uint2*>(static_cast<const __nv_bfloat16*>(from.data) + at + first);
      words[0] = bits.x, words[1] = bits.y;
    } else {
#pragma unroll
      for (int i = 0; i < kSlice; ++i) words[i] = first + i < size ? __float_as_uint(get(from, at + first + i)) : 0u;
    }
  }
  __device__ float value(int i) const {
    if constexpr (kPacked) return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xFFFF0000u);
    return __uint_as_float(words[i]);
  }
};

// Lane l ends with the sum over all lanes of value l div (32 / kCount).
template <int kCount>
__device__ float reduce_scatter(float (&values)[kCount]) {
  const int lane = threadIdx.x % 32;
  int count = kCount;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const bool upper = (lane & offset) != 0;
    if (count > 1) {
      count /= 2;
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        if (i >= count) break;
        const float send = upper ? values[i] : values[i + count], keep = upper ? values[i + count] : values[i];
        values[i] = keep + __shfl_xor_sync(kAllLanes, send, offset);
      }
    } else {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], offset);
    }
  }
  return values[0];
}

template <int kSlice, int kHeads, int kBatch, bool kPacked>
struct Walker {
  static constexpr int kScores = kHeads * kBatch, kShare = 32 / kScores;
  const Arguments& a;
  int32_t sequence;
  int64_t kv_head;
  float q[kHeads][kSlice], sums[kHeads][kSlice] = {};
  float largest = -INFINITY, total = 0;  // of this lane's head

  __device__ explicit Walker(const Arguments& arguments) : a(arguments) {}

  // Positions [from, from + kBatch), those at or beyond `end` left out. Keys and values are asked for together.
  __device__ void batch(int32_t from, int32_t end) {
    const int lane = threadIdx.x % 32;
    Slice<kSlice, kPacked> keys[kBatch], values[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int64_t place = place_of(a.cache, sequence, min(from + u, end - 1));
      keys[u].load(a.cache.keys, place * a.cache.keys.stride[1] + kv_head * a.cache.keys.stride[2],
                   static_cast<int>(a.q.shape[2]));
      values[u].load(a.cache.values, place * a.cache.values.stride[1] + kv_head * a.cache.values.stride[2],
                     static_cast<int>(a.out.shape[2]));
    }
    float scores[kScores];
#pragma unroll
    for (int u = 0; u < kBatch; ++u)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kSlice; ++i) sum += q[h][i] * keys[u].value(i);
        scores[h * kBatch + u] = sum;
      }
    float score = reduce_scatter(scores);
    const int mine = lane / kShare;
    if (from + mine % kBatch >= end) score = -INFINITY;
    float above = score;
#pragma unroll
    for (int offset = 1; offset < kBatch; offset *= 2)
      above = fmaxf(above, __shfl_xor_sync(kAllLanes, above, offset * kShare));
    above = fmaxf(above, largest);
    const float shrink = above == largest ? 1.0f : expf(largest - above);
    const float share = score == -INFINITY ? 0.0f : expf(score - above);
    largest = above;
    total = total * shrink + share;
    add_values(values, share, shrink);
  }

  __device__ void add_values(const Slice<kSlice, kPacked> (&values)[kBatch], float share, float shrink) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float factor = __shfl_sync(kAllLanes, shrink, h * kBatch * kShare);
#pragma unroll
      for (int i = 0; i < kSlice; ++i) sums[h][i] *= factor;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        const float p = __shfl_sync(kAllLanes, share, (h * kBatch + u) * kShare);
#pragma unroll
        for (int i = 0; i < kSlice; ++i) sums[h][i] += p * values[u].value(i);
      }
    }
  }

  // The sum of this lane's head's shares over its lanes: the same in all of them.
  __device__ float head_total() const {
    float sum = total;
#pragma unroll
    for (int offset = 1; offset < kBatch; offset *= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset * kShare);
    return sum;
  }
};

// Per warp: largest and total of each head, then the heads' sums.
template <int kHeads>
__device__ float* warp_memory(float* memory, int warp, int size) {
  return memory + warp * kHeads * (size + 2);
}

// Joins what the warps found for one head, and stores the result or this split's part of it.
template <int kHeads>
__device__ void join_warps(const Arguments& a, float* memory, int h, int64_t head) {
  const int size = static_cast<int>(a.out.shape[2]);
  const int64_t row = a.first_row + blockIdx.x;
  float largest = -INFINITY, total = 0;
  for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, warp_memory<kHeads>(memory, warp, size)[2 * h]);
  float factors[kWarps];
  for (int warp = 0; warp < kWarps; ++warp) {
    const float* its = warp_memory<kHeads>(memory, warp, size) + 2 * h;
    factors[warp] = its[0] == -INFINITY ? 0.0f : expf(its[0] - largest);
    total += factors[warp] * its[1];
  }
  float* partial = a.partial + ((blockIdx.x * a.q.shape[1] + head) * a.splits + blockIdx.z) * (size + 2);
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp)
      sum += factors[warp] * warp_memory<kHeads>(memory, warp, size)[2 * kHeads + h * size + i];
    if (a.splits > 1)
      partial[2 + i] = sum;
    else
      put(a.out, row * a.out.stride[0] + head * a.out.stride[1] + i, sum / total);
  }
  if (a.splits > 1 && threadIdx.x == 0) partial[0] = largest, partial[1] = total;
}

template <int kSlice, int kHeads, int kBatch, bool kPacked>
__global__ void __launch_bounds__(kWarps * 32) attention_kernel(Arguments a) {
  extern __shared__ float memory[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = a.first_row + blockIdx.x;
  const int parts = (a.group + kHeads - 1) / kHeads;
  Walker<kSlice, kHeads, kBatch, kPacked> walker(a);
  walker.kv_head = blockIdx.y / parts;
  const int first_head = static_cast<int>(blockIdx.y % parts) * kHeads, size = static_cast<int>(a.out.shape[2]);
  const int heads = min(kHeads, a.group - first_head);
  const int64_t head = walker.kv_head * a.group + first_head;
  walker.sequence = sequence_of(a.rows, static_cast<int32_t>(row));
  const int32_t last = a.rows.positions[row];
  const int32_t first = a.window > 0 ? max(0, last - static_cast<int32_t>(a.window) + 1) : 0;
  const int32_t length = (last + 1 - first + a.splits - 1) / a.splits;
  const int32_t begin = first + static_cast<int32_t>(blockIdx.z) * length, end = min(last + 1, begin + length);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    Slice<kSlice, false> query;
    query.load(a.q, row * a.q.stride[0] + (head + min(h, heads - 1)) * a.q.stride[1], static_cast<int>(a.q.shape[2]));
#pragma unroll
    for (int i = 0; i < kSlice; ++i) walker.q[h][i] = a.scale * query.value(i);
  }
  for (int32_t from = begin + warp * kBatch; from < end; from += kWarps * kBatch) walker.batch(from, end);
  float* mine = warp_memory<kHeads>(memory, warp, size);
  const float total = walker.head_total();
  constexpr int kLanes = 32 / kHeads;  // of one head
  if (lane % kLanes == 0) mine[2 * (lane / kLanes)] = walker.largest, mine[2 * (lane / kLanes) + 1] = total;
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int i = 0; i < kSlice; ++i)
      if (lane * kSlice + i < size) mine[2 * kHeads + h * size + lane * kSlice + i] = walker.sums[h][i];
  __syncthreads();
  for (int h = 0; h < heads; ++h) join_warps<kHeads>(a, memory, h, head + h);
}

__global__ void join_splits_kernel(Arguments a) {
  const int64_t row = a.first_row + blockIdx.x, head = blockIdx.y;
  const int size = static_cast<int>(a.out.shape[2]);
  const float* partial = a.partial + (blockIdx.x * a.q.shape[1] + head) * a.splits * (size + 2);
  float largest = -INFINITY, total = 0;
  for (int s = 0; s < a.splits; ++s) largest = fmaxf(largest, partial[s * (size + 2)]);
  for (int s = 0; s < a.splits; ++s) {
    const float its = partial[s * (size + 2)];
    if (its > -INFINITY) total += expf(its - largest) * partial[s * (size + 2) + 1];
  }
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    float sum = 0;
    for (int s = 0; s < a.splits; ++s) {
      const float its = partial[s * (size + 2)];
      if (its > -INFINITY) sum += expf(its - largest) * partial[s * (size + 2) + 2 + i];
    }
    put(a.out, row * a.out.stride[0] + head * a.out.stride[1] + i, sum / total);
  }
}

template <int kSlice, int kHeads, int kBatch, bool kPacked>
void start(Context& context, const Arguments& a) {
  const int size = static_cast<int>(a.out.shape[2]), parts = (a.group + kHeads - 1) / kHeads;
  const auto rows = static_cast<unsigned>(a.rows.tokens - a.first_row);
  const dim3 grid(rows, static_cast<unsigned>(a.q.shape[1] / a.group * parts), static_cast<unsigned>(a.splits));
  const size_t shared = size_t{kWarps} * kHeads * (size + 2) * sizeof(float);
  attention_kernel<kSlice, kHeads, kBatch, kPacked><<<grid, kWarps * 32, shared, context.stream()>>>(a);
  if (a.splits > 1)
    join_splits_kernel<<<dim3(rows, static_cast<unsigned>(a.q.shape[1])), 128, 0, context.stream()>>>(a);
}

}  // namespace

void attend_plain(Context& context, const PagedAttention& op, int32_t first) {
  Arguments a{.out = view(op.out),
              .q = view(op.q),
              .rows = rows_view(op.rows),
              .cache = cache_view(op.cache),
              .scale = op.scale,
              .window = op.window,
              .group = static_cast<int>(op.q.size(1) / op.cache.keys.size(2)),
              .first_row = first};
  const int64_t size = std::max(op.q.width(), op.out.width());
  if (size > 256) fail("heads of {} have no kernel for CUDA; 256 is the largest", size);
  const int heads = a.group >= 2 ? 4 : 1;
  const int64_t rows = op.rows.tokens - first, blocks = rows * op.cache.keys.size(2) * ((a.group + heads - 1) / heads);
  const int64_t reach = op.window > 0 ? std::min(op.window, op.rows.reach()) : op.rows.reach();
  a.splits = attention_splits({.blocks = blocks, .reach = reach, .multiprocessors = context.multiprocessors()});
  if (a.splits > 1) a.partial = context.take<float>(rows * op.q.size(1) * a.splits * (op.out.width() + 2));
  const bool full = aligned_pages(op.cache.keys, size) && aligned_pages(op.cache.values, size);
  const auto choose = [&](auto one, auto four) { (heads == 4 ? four : one)(context, a); };
  if (size == 256 && full)
    choose(start<8, 1, 8, true>, start<8, 4, 4, true>);
  else if (size == 128 && full)
    choose(start<4, 1, 8, true>, start<4, 4, 8, true>);
  else if (size <= 32)
    choose(start<1, 1, 8, false>, start<1, 4, 8, false>);
  else if (size <= 64)
    choose(start<2, 1, 8, false>, start<2, 4, 8, false>);
  else if (size <= 128)
    choose(start<4, 1, 8, false>, start<4, 4, 4, false>);
  else
    choose(start<8, 1, 4, false>, start<8, 4, 4, false>);
}

}  // namespace braid::cuda
