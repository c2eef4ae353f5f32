// A cluster of blocks sorts the slots by expert: each counts its share in shared memory, where atomic sums give each
// slot its rank at once, and reads the others' counts there; the order within an expert is any. All other blocks write
// rows of x as codes or as bf16 meanwhile. Bounded by the latency of the sort, and by reading x.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/arrange.h"

#include <algorithm>

#include "cuda/common/arrival.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/linear/coding.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 1024, kTogether = 8, kLanes = 8;  // kLanes share 128 columns
constexpr int kSorters = 8;                                // blocks of the cluster that sorts

struct Sort {
  const int32_t* chosen;
  int32_t chosen_stride, k, slots, experts, tokens, most;
  bool shared;
  Arranged out;
};

struct Rewriting {
  TileRows out;
  View x;
  int pieces;  // 0: bf16
};

__device__ int32_t expert_of(const Sort& a, int32_t slot) {
  const uint32_t k = static_cast<uint32_t>(a.k), row = static_cast<uint32_t>(slot) / k;
  return a.chosen[row * a.chosen_stride + static_cast<uint32_t>(slot) - row * k];
}

// Writes the parts of `count` slots from `first` on as groups.
__device__ void put_groups(const Sort& a, int32_t matrix, int32_t first, int32_t count, int32_t at) {
  const int32_t parts = (count + a.most - 1) / a.most;
  for (int32_t part = 0, from = 0; part < parts; ++part) {
    const int32_t size = (count - from + parts - part - 1) / (parts - part);
    a.out.groups[at + part] = {matrix, first + from, size};
    from += size;
  }
}

// The sums of the numbers of all threads before this one, both at once.
__device__ int2 sums_before(int2 own, int2* scratch, int2& all) {
  int2 sum = own;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int2 other{__shfl_up_sync(kAllLanes, sum.x, offset), __shfl_up_sync(kAllLanes, sum.y, offset)};
    if (lane >= offset) sum.x += other.x, sum.y += other.y;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  int2 before{0, 0};
  all = {0, 0};
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before.x += scratch[w].x, before.y += scratch[w].y;
    all.x += scratch[w].x, all.y += scratch[w].y;
  }
  __syncthreads();
  return {before.x + sum.x - own.x, before.y + sum.y - own.y};
}

// Of an expert: the slots of blocks before this one, and of all.
__device__ int2 counts_of(const int32_t* own) {
  int2 out{0, 0};
  const auto rank = static_cast<int>(cluster_rank());
  int32_t counts[kSorters];
#pragma unroll
  for (int r = 0; r < kSorters; ++r) counts[r] = load_from(address_in(r, own));
#pragma unroll
  for (int r = 0; r < kSorters; ++r) out.x += r < rank ? counts[r] : 0, out.y += counts[r];
  return out;
}

// Per expert in `counts`: how many of this block's slots; in `next`: where the next one of them goes.
__device__ void sort(const Sort& a, int32_t* counts, int32_t* next, int2* scratch) {
  const auto rank = static_cast<int32_t>(cluster_rank());
  const int32_t share = (a.slots + kSorters - 1) / kSorters, first_slot = rank * share;
  const int32_t until = min(first_slot + share, a.slots), begin = first_slot + static_cast<int32_t>(threadIdx.x);
  for (int e = threadIdx.x; e < a.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
  for (int32_t base = begin; base < until; base += kTogether * kThreads) {
    int32_t expert[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      expert[i] = base + i * kThreads < until ? expert_of(a, base + i * kThreads) : -1;
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      if (expert[i] >= 0) a.out.place[base + i * kThreads] = atomicAdd(counts + expert[i], 1);
  }
  cluster_sync();
  int32_t first = 0, groups = 0;
  for (int32_t base = 0; base < a.experts; base += kThreads) {
    const int32_t e = base + static_cast<int32_t>(threadIdx.x);
    const int2 count = e < a.experts ? counts_of(counts + e) : int2{0, 0};
    int2 all;
    const int2 before = sums_before({count.y, (count.y + a.most - 1) / a.most}, scratch, all);
    if (e < a.experts) {
      if (rank == 0) put_groups(a, e, first + before.x, count.y, groups + before.y);
      next[e] = first + before.x + count.x;
    }
    first += all.x, groups += all.y;
  }
  cluster_arrive();  // others may still read the counts
  if (threadIdx.x == 0 && rank == 0) {
    if (a.shared) put_groups(a, a.experts, a.slots, a.tokens, groups);
    *a.out.group_count = groups + (a.shared ? (a.tokens + a.most - 1) / a.most : 0);
  }
  __syncthreads();
  for (int32_t base = begin; base < until; base += kTogether * kThreads) {
    int32_t place[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int32_t slot = base + i * kThreads;
      place[i] = slot < until ? next[expert_of(a, slot)] + a.out.place[slot] : -1;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int32_t slot = base + i * kThreads;
      if (place[i] < 0) continue;
      a.out.place[slot] = place[i], a.out.rows[place[i]] = slot / a.k;
    }
  }
  if (a.shared)
    for (int32_t t = rank * kThreads + static_cast<int32_t>(threadIdx.x); t < a.tokens; t += kSorters * kThreads)
      a.out.rows[a.slots + t] = t;
  __syncwarp();
  cluster_wait();
}

// Eight lanes take 128 columns of a row.
__device__ void code(const Rewriting& a, int64_t thread, int64_t threads) {
  const int64_t chunks = a.x.shape[1] / 128, jobs = a.x.shape[0] * chunks;
  const int lane = threadIdx.x % kLanes;
  for (int64_t job = thread / kLanes; job < jobs; job += threads / kLanes) {
    const int64_t row = job / chunks, chunk = job - row * chunks, column = chunk * 128 + lane * 16;
    float values[16];
    load_16(values, a.x, row * a.x.stride[0] + column);
    uint8_t* to = a.out.data + row * a.out.pieces * a.out.bytes;
    if (a.pieces == 0) {
      uint32_t words[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
        words[i] = *reinterpret_cast<const uint32_t*>(&both);
      }
      auto* out = reinterpret_cast<uint4*>(to + column * 2);
      out[0] = {words[0], words[1], words[2], words[3]}, out[1] = {words[4], words[5], words[6], words[7]};
      continue;
    }
    const float scale = scale_of<kLanes>(values);
    uint32_t words[4];
    code_16(words, values, 1 / scale);
    *reinterpret_cast<uint4*>(to + column) = {words[0], words[1], words[2], words[3]};
    float* scales = a.out.scales + (chunk * a.x.shape[0] + row) * a.pieces;
    if (lane == 0) scales[0] = scale;
    if (a.pieces == 1) continue;
    code_rest_16(words, values, 1 / scale);
    *reinterpret_cast<uint4*>(to + a.out.bytes + column) = {words[0], words[1], words[2], words[3]};
    if (lane == 0) scales[1] = scale * kRestScale;
  }
}

__global__ void __launch_bounds__(kThreads) arrange_kernel(Sort sorting, Rewriting rows) {
  extern __shared__ int32_t counts[];
  __shared__ int2 scratch[kThreads / 32];
  await_earlier();
  if (blockIdx.x < kSorters) return sort(sorting, counts, counts + sorting.experts, scratch);
  code(rows, (blockIdx.x - kSorters) * int64_t{kThreads} + threadIdx.x, (gridDim.x - kSorters) * int64_t{kThreads});
}

constexpr int kCodeThreads = 256;
// The launch behind this one may read what the one before it made.
__global__ void __launch_bounds__(kCodeThreads) code_kernel(Rewriting rows) {
  await_then_allow();
  code(rows, blockIdx.x * int64_t{kCodeThreads} + threadIdx.x, gridDim.x * int64_t{kCodeThreads});
}

TileRows take_rows(Context& context, int64_t rows, int64_t columns, int pieces) {
  if (pieces == 0) return {.data = context.take<uint8_t>(rows * columns * 2), .rows = rows, .bytes = columns * 2};
  return {.data = context.take<uint8_t>(rows * pieces * columns),
          .scales = context.take<float>(rows * pieces * (columns / 128)),
          .rows = rows,
          .bytes = columns,
          .pieces = pieces};
}
// As they are.
TileRows same_rows(const View& x) {
  return {.data = static_cast<uint8_t*>(x.data), .rows = x.shape[0], .bytes = x.stride[0] * 2};
}

int64_t jobs_of(const View& x) { return x.shape[0] * x.shape[1] / 16; }  // threads that find work

void rewrite(Context& context, const Rewriting& rows) {
  const auto blocks =
      std::min<int64_t>((jobs_of(rows.x) + kCodeThreads - 1) / kCodeThreads, int64_t{8} * context.multiprocessors());
  start(context, code_kernel, {.grid = static_cast<unsigned>(blocks), .block = kCodeThreads}, rows);
}

}  // namespace

Arranged arrange(Context& context, const Experts& op, const Arranging& how, TileRows& x) {
  const int64_t slots = op.chosen.elements(), experts = op.gate_up->count, tokens = op.x.rows();
  const View in = view(op.x);
  const bool ready = how.pieces == 0 && in.bf16;
  x = ready ? same_rows(in) : take_rows(context, tokens, in.shape[1], how.pieces);
  const int64_t positions = slots + (how.shared ? tokens : 0);
  const int64_t groups = std::min(slots, experts + slots / how.most) + tokens / how.most + 1;
  const Sort sorting{.chosen = op.chosen.as<int32_t>(),
                     .chosen_stride = static_cast<int32_t>(op.chosen.stride(0)),
                     .k = static_cast<int32_t>(op.chosen.width()),
                     .slots = static_cast<int32_t>(slots),
                     .experts = static_cast<int32_t>(experts),
                     .tokens = static_cast<int32_t>(tokens),
                     .most = how.most,
                     .shared = how.shared,
                     .out = {.rows = context.take<int32_t>(positions),
                             .place = context.take<int32_t>(slots),
                             .groups = context.take<Group>(groups),
                             .group_count = context.take<int32_t>(1),
                             .positions = positions}};
  const int64_t clusters = (2 * context.multiprocessors() + kSorters - 1) / kSorters;
  const int64_t others =
      ready ? 0 : std::clamp<int64_t>((jobs_of(in) + kThreads * kSorters - 1) / (kThreads * kSorters), 1, clusters - 1);
  start(context, arrange_kernel,
        {.grid = static_cast<unsigned>((1 + others) * kSorters),
         .block = kThreads,
         .shared = static_cast<size_t>(experts) * 8,
         .cluster = kSorters},
        sorting, Rewriting{.out = x, .x = in, .pieces = how.pieces});
  return sorting.out;
}

TileRows tile_rows(Context& context, const View& x, int pieces) {
  if (pieces == 0 && x.bf16) return same_rows(x);
  const TileRows out = take_rows(context, x.shape[0], x.shape[1], pieces);
  rewrite(context, {.out = out, .x = x, .pieces = pieces});
  return out;
}

}  // namespace braid::cuda
