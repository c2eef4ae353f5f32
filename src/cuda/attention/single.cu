// Attention of single rows on tensor cores. The keys of a sequence are cut into pieces whose borders depend on the
// row's position alone; a block takes a piece, a kv head and up to eight of its query heads. Each warp walks over every
// fourth step of 16 positions with a ring of its own in shared memory, filled by the copy engine, so that warps never
// wait for each other; then the warps are joined, and a second kernel joins the pieces. Scores, shares and sums are
// f32; queries, and shares as an operand, are rounded to bf16. Keys and values are read once: bounded by memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cuda/attention/hopper.h"
#include "cuda/attention/kernels.h"
#include "cuda/attention/page_map.h"
#include "cuda/attention/select.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/linear/tensor_core.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kHeads = 8;              // query heads of a block
constexpr int kStep = kBoxPositions;   // positions
constexpr int kRingBytes = 24 * 1024;  // of a warp
constexpr float kNone = -INFINITY;

struct Arguments {
  View out, q;
  RowsView rows;
  CacheView cache;
  float scale;  // times log2(e)
  int32_t window, group, parts, size;
  bool q_aligned;  // two numbers of q begin at their size
  int32_t slots;   // pieces that `partial` has room for, a row and head; 1: results go to `out`
  float* partial;  // [row][head][slot]: largest, total, sums
};

__device__ void load_matrices(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ void load_transposed(uint32_t (&out)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

// The positions of a row that a block works on: [begin, end), those at or beyond `begin` that the window leaves.
struct Piece {
  int32_t begin, end;
  int32_t index, count;  // among the pieces that the row sees
};

__device__ Piece piece_of(int32_t last, int32_t window, int32_t index) {
  const int32_t tokens = attention_piece(last + 1), first = window > 0 ? max(0, last - window + 1) : 0;
  const int32_t before = first / tokens;
  return {max(first, (before + index) * tokens), min(last + 1, (before + index + 1) * tokens), index,
          last / tokens - before + 1};
}

// One warp's work: `kSize` is the size of the heads, rounded up to 64.
template <int kSize>
struct Walker {
  static constexpr int kPanels = kSize / 64, kBytes = kStep * kSize * 2, kSlots = kRingBytes / kBytes;
  const Arguments& a;
  const CUtensorMap *keys, *values;
  Piece piece;
  int32_t sequence, kv_head, first_step, steps;  // a step every kWarps
  uint32_t ring, barriers;                       // a slot holds keys or values; a barrier each
  uint32_t queries[kSize / 16][2];               // of head lane / 4
  float sums[kSize / 16][4] = {};                // of heads lane % 4 * 2 and the next
  float largest = kNone, total = 0;              // of head lane / 4, in base two; total of this lane's positions

  __device__ explicit Walker(const Arguments& arguments) : a(arguments) {}

  // Byte offset of 16-byte piece `part` of row `row`.
  __device__ static uint32_t place_in_slot(int row, int part) {
    return static_cast<uint32_t>(part / 8 * kStep * 128) + swizzled(row, part % 8);
  }
  __device__ int32_t position_of(int step) const { return (first_step + step * kWarps) * kStep; }
  __device__ uint32_t slot_of(int index) const { return ring + index % kSlots * kBytes; }

  // Copies are of keys and values of a step in turn; a lane's box of copy `index`.
  __device__ bool has_box(int index) const { return index < 2 * steps && static_cast<int>(threadIdx.x) % 32 < kPanels; }
  __device__ const CUtensorMap* map_of(int index) const { return index % 2 == 0 ? keys : values; }
  __device__ Box box_of(int index) const {
    return {static_cast<int32_t>(threadIdx.x) % 32 * 64, kv_head, place_of(a.cache, sequence, position_of(index / 2))};
  }
  // Asks for copy `index`. Whoever reads its slot has done so.
  __device__ void ask(int index) const {
    if (!has_box(index)) return;
    const uint32_t barrier = barriers + index % kSlots * 8;
    const Box box = box_of(index);
    arrive_expecting(barrier, kStep * 128);
    copy_box(slot_of(index) + box.column / 64 * kStep * 128, map_of(index), box, barrier);
  }
  __device__ void await(int index) const { wait_phase(barriers + index % kSlots * 8, index / kSlots & 1); }

  // Positions that the row does not see may hold anything, and 0 times that need not be 0.
  __device__ void clear_unseen(int32_t first, uint32_t slot) const {
    if (first >= piece.begin && first + kStep <= piece.end) return;
    for (int at = static_cast<int>(threadIdx.x) % 32; at < kStep * kSize / 8; at += 32) {
      const int row = at % kStep;
      if (first + row >= piece.begin && first + row < piece.end) continue;
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(slot + place_in_slot(row, at / kStep)), "r"(0)
                   : "memory");
    }
    publish_shared();
    __syncwarp();
  }

  __device__ void score(float (&scores)[2][4], uint32_t slot) const {
    const int lane = threadIdx.x % 32;
    const int row = lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
    float odd[2][4] = {};
#pragma unroll
    for (int k = 0; k < kSize / 16; ++k) {
      uint32_t keys[4];
      load_matrices(keys, slot + place_in_slot(row, 2 * k + half));
      const uint32_t rows[4] = {queries[k][0], 0, queries[k][1], 0};
      auto& into = k % 2 == 0 ? scores : odd;
      multiply_add(into[0], rows, {keys[0], keys[1]});
      multiply_add(into[1], rows, {keys[2], keys[3]});
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) scores[i][0] += odd[i][0], scores[i][1] += odd[i][1];
  }

  // Shares of head lane / 4: of positions lane % 4 * 2 and the next, and of those 8 further.
  __device__ float find_shares(float (&scores)[2][4], int32_t first) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
    float above = kNone;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][i % 2];
      const int32_t position = first + i / 2 * 8 + column + i % 2;
      if (position < piece.begin || position >= piece.end) score = kNone;
      above = fmaxf(above, score);
    }
    above = fmaxf(above, __shfl_xor_sync(kAllLanes, above, 1));
    above = fmaxf(above, __shfl_xor_sync(kAllLanes, above, 2));
    above = fmaxf(largest, above * a.scale);
    const float offset = above == kNone ? 0.0f : above;
    const float shrink = exp2_fast(largest - offset);
    largest = above;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][i % 2];
      score = exp2_fast(score * a.scale - offset);
      total += score;
    }
    return shrink;
  }

  __device__ void add_values(const float (&shares)[2][4], float shrink, uint32_t slot) {
    const int lane = threadIdx.x % 32;
    if (__any_sync(kAllLanes, shrink != 1.0f)) {
      const float low = __shfl_sync(kAllLanes, shrink, lane % 4 * 8);
      const float high = __shfl_sync(kAllLanes, shrink, lane % 4 * 8 + 4);
#pragma unroll
      for (int i = 0; i < kSize / 16; ++i) sums[i][0] *= low, sums[i][1] *= high, sums[i][2] *= low, sums[i][3] *= high;
    }
    const uint32_t weights[2] = {pack_bf16(shares[0][0], shares[0][1]), pack_bf16(shares[1][0], shares[1][1])};
    const int row = lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
#pragma unroll
    for (int i = 0; i < kSize / 16; ++i) {
      uint32_t values[4];
      load_transposed(values, slot + place_in_slot(row, 2 * i + half));
      multiply_add(sums[i], values, weights);
    }
  }

  // What does not need the launches before: barriers, and the first copies as far as the second-level cache.
  __device__ void get_ready() const {
    if (threadIdx.x % 32 == 0)
      for (int slot = 0; slot < kSlots; ++slot) set_barrier(barriers + slot * 8, kPanels);
    publish_shared();
    __syncwarp();
    for (int i = 0; i < kSlots; ++i)
      if (has_box(i)) prefetch_box(map_of(i), box_of(i));
  }
  __device__ void ask_first() const {
    for (int i = 0; i < kSlots; ++i) ask(i);
  }
  __device__ void walk() {
    for (int step = 0; step < steps; ++step) {
      float scores[2][4] = {};
      await(2 * step);
      score(scores, slot_of(2 * step));
      __syncwarp();
      ask(2 * step + kSlots);
      const float shrink = find_shares(scores, position_of(step));
      await(2 * step + 1);
      clear_unseen(position_of(step), slot_of(2 * step + 1));
      add_values(scores, shrink, slot_of(2 * step + 1));
      __syncwarp();
      ask(2 * step + 1 + kSlots);
    }
  }
};

__device__ uint32_t packed(uint32_t pair) { return pair; }
__device__ uint32_t packed(float2 pair) { return pack_bf16(pair.x, pair.y); }

// Columns beyond the head's, and heads beyond the block's, are asked for where others lie, so that no load is behind a
// branch.
template <int kSize>
__device__ void load_queries(Walker<kSize>& walker, int32_t row, int32_t first_head, int32_t heads) {
  const Arguments& a = walker.a;
  const int lane = threadIdx.x % 32;
  const bool own = lane / 4 < heads;
  const int64_t from = row * a.q.stride[0] + (first_head + (own ? lane / 4 : 0)) * a.q.stride[1];
  const auto load = [&](auto pair_at) {
    decltype(pair_at(int64_t{})) pairs[kSize / 16][2];
#pragma unroll
    for (int i = 0; i < kSize / 8; ++i) pairs[i / 2][i % 2] = pair_at(from + min(i * 8 + lane % 4 * 2, a.size - 2));
#pragma unroll
    for (int i = 0; i < kSize / 8; ++i) {
      const uint32_t pair = packed(pairs[i / 2][i % 2]);
      walker.queries[i / 2][i % 2] = own && i * 8 < a.size ? pair : 0u;
    }
  };
  if (a.q_aligned && a.q.bf16)
    load([&](int64_t at) {
      return *reinterpret_cast<const uint32_t*>(static_cast<const __nv_bfloat16*>(a.q.data) + at);
    });
  else if (a.q_aligned)
    load([&](int64_t at) { return *reinterpret_cast<const float2*>(static_cast<const float*>(a.q.data) + at); });
  else
    load([&](int64_t at) { return float2{get(a.q, at), get(a.q, at + 1)}; });
}

// Memory of a warp after its walk: largest and total of each head, then the heads' sums.
template <int kSize>
struct Found {
  static constexpr int kPitch = kSize + 4;  // keeps the lanes of four heads in different banks
  float largest[kHeads], total[kHeads];
  float sums[kHeads][kPitch];
};

template <int kSize>
__device__ void leave(const Walker<kSize>& walker, Found<kSize>& found) {
  const int lane = threadIdx.x % 32;
  float total = walker.total;
  total += __shfl_xor_sync(kAllLanes, total, 1);
  total += __shfl_xor_sync(kAllLanes, total, 2);
  if (lane % 4 == 0) found.largest[lane / 4] = walker.largest, found.total[lane / 4] = total;
#pragma unroll
  for (int i = 0; i < kSize / 16; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) found.sums[lane % 4 * 2 + j % 2][i * 16 + lane / 4 + j / 2 * 8] = walker.sums[i][j];
}

template <int kSize>
__device__ void join_warps(const Arguments& a, const Found<kSize>* found, const Piece& piece, int32_t head) {
  const int h = static_cast<int>(threadIdx.x) / 16;  // 16 threads a head
  float largest = kNone, total = 0, factors[kWarps];
  for (int warp = 0; warp < kWarps; ++warp) largest = fmaxf(largest, found[warp].largest[h]);
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    factors[warp] = exp2_fast(found[warp].largest[h] - largest);
    total += factors[warp] * found[warp].total[h];
  }
  const int64_t row = blockIdx.z, at = row * a.out.stride[0] + head * a.out.stride[1];
  float* partial = a.partial + ((row * a.q.shape[1] + head) * a.slots + piece.index) * (a.size + 2);
  const bool whole = piece.count == 1;
  const float factor = whole ? 1 / total : 1.0f;
#pragma unroll
  for (int i = 0; i < kSize / 16; ++i) {
    const int column = static_cast<int>(threadIdx.x) % 16 + 16 * i;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += factors[warp] * found[warp].sums[h][column];
    if (column >= a.size) break;
    if (whole)
      put(a.out, at + column, sum * factor);
    else
      partial[2 + column] = sum;
  }
  if (piece.count > 1 && threadIdx.x % 16 == 0) partial[0] = largest, partial[1] = total;
}

template <int kSize>
struct Layout {
  static constexpr size_t kBarriers = kWarps * size_t{kRingBytes};
  static constexpr size_t kRings = kBarriers + kWarps * Walker<kSize>::kSlots * 8;
  static constexpr size_t kBytes = std::max(kRings, kWarps * sizeof(Found<kSize>)) + 1024;  // the start is rounded up
};

template <int kSize>
__global__ void __launch_bounds__(kWarps * 32, 2)
    pieces_kernel(const __grid_constant__ Arguments a, const __grid_constant__ CUtensorMap keys,
                  const __grid_constant__ CUtensorMap values) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ char unaligned[];
  allow_next();
  char* memory = unaligned + (-shared_address(unaligned) & 1023u);
  const auto row = static_cast<int32_t>(blockIdx.z), part = static_cast<int32_t>(blockIdx.x) % a.parts;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Walker<kSize> walker(a);
  walker.keys = &keys, walker.values = &values;
  walker.piece = piece_of(a.rows.positions[row], a.window, static_cast<int32_t>(blockIdx.y));
  if (walker.piece.index >= walker.piece.count) return;
  walker.sequence = row;
  walker.kv_head = static_cast<int32_t>(blockIdx.x) / a.parts;
  const int32_t head = walker.kv_head * a.group + part * kHeads, heads = min(kHeads, a.group - part * kHeads);
  const int32_t first = walker.piece.begin / kStep, end = (walker.piece.end + kStep - 1) / kStep;
  walker.first_step = first + warp;
  walker.steps = max(0, (end - first - warp + kWarps - 1) / kWarps);
  walker.ring = shared_address(memory) + warp * kRingBytes;
  walker.barriers = shared_address(memory) + Layout<kSize>::kBarriers + warp * Walker<kSize>::kSlots * 8;
  walker.get_ready();
  await();
  walker.ask_first();
  load_queries(walker, row, head, heads);
  walker.walk();
  __syncthreads();
  auto* found = reinterpret_cast<Found<kSize>*>(memory);
  leave(walker, found[warp]);
  __syncthreads();
  if (static_cast<int>(threadIdx.x) / 16 < heads)
    join_warps(a, found, walker.piece, head + static_cast<int>(threadIdx.x) / 16);
#endif
}

// A warp finds the factors of 32 pieces at a time, a lane one, and every thread adds up a column.
__global__ void join_pieces_kernel(Arguments a) {
  allow_next();
  const auto row = static_cast<int32_t>(blockIdx.x), head = static_cast<int32_t>(blockIdx.y);
  const int lane = threadIdx.x % 32, column = static_cast<int>(threadIdx.x), pitch = a.size + 2;
  const int count = piece_of(a.rows.positions[row], a.window, 0).count;
  await();
  if (count == 1) return;
  const float* partial = a.partial + (row * a.q.shape[1] + head) * a.slots * pitch;
  const auto found = [&](int i) {
    return i < count ? *reinterpret_cast<const float2*>(partial + int64_t{i} * pitch) : float2{kNone, 0};
  };
  float largest = kNone, total = 0, sum = 0;
  for (int first = 0; first < count; first += 32) largest = fmaxf(largest, found(first + lane).x);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  for (int first = 0; first < count; first += 32) {
    const float2 own = found(first + lane);
    const float factor = exp2_fast(own.x - largest);
    total += factor * own.y;
    for (int i = 0; i < 32 && first + i < count; i += 8) {
      float values[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const bool valid = first + i + j < count && column < a.size;
        values[j] = valid ? partial[int64_t{first + i + j} * pitch + 2 + column] : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += __shfl_sync(kAllLanes, factor, i + j) * values[j];
    }
  }
  total = sum_of_warp(total);
  if (column < a.size) put(a.out, row * a.out.stride[0] + head * a.out.stride[1] + column, sum / total);
}

template <int kSize>
void attend(Context& context, const Arguments& a, int32_t rows) {
  constexpr size_t kBytes = Layout<kSize>::kBytes;
  check(cudaFuncSetAttribute(pieces_kernel<kSize>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory for attention");
  const auto heads = static_cast<unsigned>(a.cache.keys.shape[2] * a.parts), slots = static_cast<unsigned>(a.slots);
  const auto every = static_cast<unsigned>(rows);
  start(context, pieces_kernel<kSize>, {.grid = dim3(heads, slots, every), .block = kWarps * 32, .shared = kBytes}, a,
        page_map(a.cache.keys), page_map(a.cache.values));
  if (a.slots == 1) return;
  const auto columns = static_cast<unsigned>((a.size + 31) / 32 * 32);
  start(context, join_pieces_kernel, {.grid = dim3(every, static_cast<unsigned>(a.q.shape[1])), .block = columns}, a);
}

}  // namespace

void attend_single_rows(Context& context, const PagedAttention& op) {
  Arguments a{.out = view(op.out),
              .q = view(op.q),
              .rows = rows_view(op.rows),
              .cache = cache_view(op.cache),
              .scale = op.scale * 1.44269504f,
              .window = static_cast<int32_t>(op.window),
              .group = static_cast<int32_t>(op.q.size(1) / op.cache.keys.size(2)),
              .size = static_cast<int32_t>(op.q.width())};
  a.q_aligned = begins_at(a.q, a.q.bf16 ? 4 : 8, 2);
  a.parts = (a.group + kHeads - 1) / kHeads;
  a.slots = most_attention_pieces(op.rows.reach(), op.window);
  if (a.slots > 1) a.partial = context.take<float>(int64_t{op.rows.thin} * op.q.size(1) * a.slots * (a.size + 2));
  switch ((a.size + 63) / 64) {
    case 1:
      return attend<64>(context, a, op.rows.thin);
    case 2:
      return attend<128>(context, a, op.rows.thin);
    case 3:
      return attend<192>(context, a, op.rows.thin);
    default:
      return attend<256>(context, a, op.rows.thin);
  }
}

}  // namespace braid::cuda
