// Attention of prompts on Hopper's tensor cores. A block takes 128 rows of a sequence and a kv head, where a row is a
// token and one of the query heads that share the kv head, and walks over the keys in tiles that start at multiples of
// their length: what a row adds up, and in which order, is a matter of its position alone. Two warps copy keys and two
// copy values from the pages into shared memory, two stages deep: by the copy engine where a tile lies within the
// sequence, else row by row with rows that nobody sees cleared; two warpgroups take 64 rows each. The scores of a tile
// are multiplied while the shares of the one before are multiplied with its values; the warpgroups take turns, so that
// one finds shares while the other multiplies. Scores, shares and sums are f32; queries, and shares as an operand, are
// rounded to bf16. Bounded by the tensor cores.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/prompt_tiles.h"
#include "cuda/attention/warpgroup_product.h"
#include "cuda/common/reduce.h"
#include "cuda/common/start.h"

namespace braid::cuda {
namespace {

using namespace prompt;

// Puts this warpgroup's 64 rows of queries into shared memory; `eight_at` gives eight numbers of q as bf16. Several
// pieces of 16 bytes are asked for before the first is stored.
template <int kSize, int kTokens, typename EightAt>
__device__ void load_queries(const Arguments& a, const Tile& tile, char* memory, const EightAt& eight_at) {
  using L = Layout<kSize, kTokens>;
  constexpr int kPieces = kSize / 8, kEach = 64 * kPieces / 128, kTogether = kEach < 16 ? kEach : kEach / 2;
  const int thread = static_cast<int>(threadIdx.x) % 128, group = static_cast<int>(threadIdx.x) / 128;
  for (int first = 0; first < kEach; first += kTogether) {
    uint4 words[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = thread + (first + i) * 128, column = at % kPieces * 8;
      const int32_t flat = tile.first + group * 64 + at / kPieces;
      const int64_t token = tile.first_token + flat / a.group, head = tile.kv_head * a.group + flat % a.group;
      const bool valid = flat < tile.end && column < a.size;
      words[i] = valid ? eight_at(token * a.q.stride[0] + head * a.q.stride[1] + column) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = thread + (first + i) * 128, row = group * 64 + at / kPieces, piece = at % kPieces;
      *reinterpret_cast<uint4*>(memory + piece / 8 * L::kQueryPanel + swizzled(row, piece % 8)) = words[i];
    }
  }
}

template <int kSize, int kTokens>
__device__ void load_queries(const Arguments& a, const Tile& tile, char* memory) {
  const auto pack = [](const float4& x, const float4& y) {
    return uint4{pack_bf16(x.x, x.y), pack_bf16(x.z, x.w), pack_bf16(y.x, y.y), pack_bf16(y.z, y.w)};
  };
  if (!a.q_aligned)
    load_queries<kSize, kTokens>(a, tile, memory, [&](int64_t at) {
      return pack({get(a.q, at), get(a.q, at + 1), get(a.q, at + 2), get(a.q, at + 3)},
                  {get(a.q, at + 4), get(a.q, at + 5), get(a.q, at + 6), get(a.q, at + 7)});
    });
  else if (a.q.bf16)
    load_queries<kSize, kTokens>(a, tile, memory, [&](int64_t at) {
      return *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(a.q.data) + at);
    });
  else
    load_queries<kSize, kTokens>(a, tile, memory, [&](int64_t at) {
      const auto* q = reinterpret_cast<const float4*>(static_cast<const float*>(a.q.data) + at);
      return pack(q[0], q[1]);
    });
}

// What a thread keeps of its two rows, eight apart.
template <int kSize, int kTokens>
struct Softmax {
  float scores[kTokens / 2];
  uint32_t shares[kTokens / 16][4];
  float sums[kSize / 2];
  float largest[2] = {kNone, kNone}, total[2] = {0, 0};  // in base two; of this thread's columns
  float shrink[2];                                       // of what was summed so far
  int32_t last[2];                                       // position of the row

  // Columns that a row does not see.
  __device__ void mask(int32_t first_position, int32_t window) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      const int32_t position = first_position + i / 4 * 8 + column + i % 2, row = last[i / 2 % 2];
      if (position > row || (window > 0 && position <= row - window)) scores[i] = kNone;
    }
  }
  // Scores become shares of the largest so far.
  __device__ void find_shares(float scale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float above = kNone;
#pragma unroll
      for (int i = 0; i < kTokens / 8; ++i)
        above = fmaxf(above, fmaxf(scores[4 * i + 2 * r], scores[4 * i + 2 * r + 1]));
      above = fmaxf(above, __shfl_xor_sync(kAllLanes, above, 1));
      above = fmaxf(above, __shfl_xor_sync(kAllLanes, above, 2));
      above = fmaxf(largest[r], above * scale);
      const float offset = above == kNone ? 0.0f : above;
      shrink[r] = exp2_fast(largest[r] - offset);
      largest[r] = above;
      float sum = total[r] * shrink[r];
#pragma unroll
      for (int i = 0; i < kTokens / 8; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float& x = scores[4 * i + 2 * r + j];
          x = exp2_fast(x * scale - offset);
          sum += x;
        }
      }
      total[r] = sum;
    }
  }
  __device__ void shrink_sums() {
    if (!__any_sync(kAllLanes, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kSize / 2; ++i) sums[i] *= shrink[i / 2 % 2];
  }
  __device__ void round_shares() {
#pragma unroll
    for (int k = 0; k < kTokens / 16; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) shares[k][i] = pack_bf16(scores[8 * k + 2 * i], scores[8 * k + 2 * i + 1]);
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <int kSize, int kTokens>
__device__ void issue_scores(Softmax<kSize, kTokens>& s, uint32_t queries, uint32_t keys) {
  using L = Layout<kSize, kTokens>;
  open_products();
#pragma unroll
  for (int k = 0; k < kSize / 16; ++k)
    SharedProduct<kTokens>::issue(s.scores, matrix_at(queries + k / 4 * L::kQueryPanel + k % 4 * 32, 0),
                                  matrix_at(keys + k / 4 * L::kPanel + k % 4 * 32, 0), k > 0);
  close_products();
}

template <int kSize, int kTokens>
__device__ void issue_values(Softmax<kSize, kTokens>& s, uint32_t values) {
  open_products();
#pragma unroll
  for (int k = 0; k < kTokens / 16; ++k)
    RegisterProduct<kSize>::issue(s.sums, s.shares[k], matrix_at(values + k * 2048, Layout<kSize, kTokens>::kPanel), 1);
  close_products();
}

// Scores of the tile that begins at `position` become shares.
template <int kSize, int kTokens>
__device__ void find_shares(const Arguments& a, const Tile& tile, Softmax<kSize, kTokens>& s, int32_t position) {
  hold_registers(s.scores);
  const int32_t first_row = tile.first_position + tile.first / a.group;
  if (position + kTokens - 1 > first_row || (a.window > 0 && position <= tile.high - a.window))
    s.mask(position, a.window);
  s.find_shares(a.scale);
}

template <int kSize>
__device__ void store(const Arguments& a, const Tile& tile, const float (&sums)[kSize / 2], const float (&total)[2]) {
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = total[r];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    const float factor = 1.0f / sum;
    const int32_t flat = tile.first + warp * 16 + lane / 4 + 8 * r;
    if (flat >= tile.end) continue;
    const int64_t token = tile.first_token + flat / a.group, head = tile.kv_head * a.group + flat % a.group;
    const int64_t at = token * a.out.stride[0] + head * a.out.stride[1];
#pragma unroll
    for (int i = 0; i < kSize / 8; ++i) {
      const int column = i * 8 + lane % 4 * 2;
      if (column >= a.size) break;
      const float x = sums[4 * i + 2 * r] * factor, y = sums[4 * i + 2 * r + 1] * factor;
      if (!a.out_aligned)
        put(a.out, at + column, x), put(a.out, at + column + 1, y);
      else if (a.out.bf16)
        *reinterpret_cast<uint32_t*>(static_cast<__nv_bfloat16*>(a.out.data) + at + column) = pack_bf16(x, y);
      else
        *reinterpret_cast<float2*>(static_cast<float*>(a.out.data) + at + column) = {x, y};
    }
  }
}

template <int kSize, int kTokens>
__device__ void multiply_tiles(const Arguments& a, const Tile& tile, char* memory, const Barriers (&barriers)[2]) {
  using L = Layout<kSize, kTokens>;
  const int lane = threadIdx.x % 32, warp = static_cast<int>(threadIdx.x) / 32, group = warp / 4;
  const Barriers &keys = barriers[0], &values = barriers[1];
  const uint32_t start = shared_address(memory), queries = start + group * 64 * 128;
  load_queries<kSize, kTokens>(a, tile, memory);
  publish_shared();
  sync_some(1 + group, 128);
  Softmax<kSize, kTokens> s;
#pragma unroll
  for (float& sum : s.sums) sum = 0;
  for (int r = 0; r < 2; ++r)
    s.last[r] = tile.first_position + min(tile.first + warp * 16 + lane / 4 + 8 * r, tile.end - 1) / a.group;
  const int32_t begin = tile.low / kTokens, rounds = tile.high / kTokens - begin + 1;
  const auto release = [&](const Barriers& which, int round) {
    __syncwarp();
    if (lane == 0) which.arrive_empty(round);
  };
  keys.wait_full(0);
  issue_scores(s, queries, start + L::kKeys);
  wait_products<0>();
  release(keys, 0);
  find_shares(a, tile, s, begin * kTokens);
  s.round_shares();
  const int mine = 3 + group, other = 4 - group;
  if (group == 1) arrive_some(other, 256);
  for (int round = 1; round < rounds; ++round) {
    keys.wait_full(round);
    sync_some(mine, 256);
    issue_scores(s, queries, start + L::kKeys + round % kStages * L::kTile);
    values.wait_full(round - 1);
    issue_values(s, start + L::kValues + (round - 1) % kStages * L::kTile);
    if (group == 0 || round + 1 < rounds) arrive_some(other, 256);
    wait_products<1>();
    release(keys, round);
    find_shares(a, tile, s, (begin + round) * kTokens);
    wait_products<0>();
    hold_registers(s.sums);
    release(values, round - 1);
    s.shrink_sums();
    s.round_shares();
  }
  values.wait_full(rounds - 1);
  issue_values(s, start + L::kValues + (rounds - 1) % kStages * L::kTile);
  wait_products<0>();
  hold_registers(s.sums);
  store<kSize>(a, tile, s.sums, s.total);
}

#endif

template <int kSize, int kTokens>
__global__ void __launch_bounds__(kThreads, 1)
    prompt_kernel(const __grid_constant__ Arguments a, const __grid_constant__ CUtensorMap keys,
                  const __grid_constant__ CUtensorMap values) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using L = Layout<kSize, kTokens>;
  extern __shared__ char unaligned[];
  const uint32_t skip = -shared_address(unaligned) & 1023u;
  char* memory = unaligned + skip;
  const uint32_t start = shared_address(memory);
  await_earlier();
  Tile tile;
  const auto heads = static_cast<int32_t>(a.cache.keys.shape[2]);
  if (!find_tile(a, static_cast<int32_t>(blockIdx.x) / heads, tile)) return;
  tile.kv_head = static_cast<int32_t>(blockIdx.x) % heads;
  Barriers barriers[2];
  for (int i = 0; i < 2; ++i) {
    barriers[i].full = start + L::kBarriers + i * 2 * kStages * 8;
    barriers[i].empty = barriers[i].full + kStages * 8;
    if (threadIdx.x == 0)
      for (int stage = 0; stage < kStages; ++stage)
        set_barrier(barriers[i].full + stage * 8, kCopiers), set_barrier(barriers[i].empty + stage * 8, 8);
  }
  publish_shared();
  __syncthreads();
  if (threadIdx.x >= 256) {
    shrink_registers<40>();
    if (threadIdx.x < 256 + kCopiers)
      copy_tiles<kSize, kTokens>(a, tile, {a.cache.keys, keys, start + L::kKeys, barriers[0]});
    else
      copy_tiles<kSize, kTokens>(a, tile, {a.cache.values, values, start + L::kValues, barriers[1]});
  } else {
    grow_registers<232>();
    multiply_tiles<kSize, kTokens>(a, tile, memory, barriers);
  }
#endif
}

template <int kSize, int kTokens>
void attend(Context& context, const Arguments& a) {
  constexpr uint32_t kBytes = Layout<kSize, kTokens>::kBytes;
  static_assert(kBytes <= 227 * 1024);
  check(cudaFuncSetAttribute(prompt_kernel<kSize, kTokens>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
        "shared memory for attention");
  // The host does not know how the rows are spread over sequences: each may have one tile that is not full.
  const int64_t sequences = a.rows.sequences - a.first_sequence, rows = a.rows.tokens - a.first_sequence;
  const int64_t tiles = rows * a.group / kRows + sequences;
  const auto blocks = static_cast<unsigned>(tiles * a.cache.keys.shape[2]);
  start(context, prompt_kernel<kSize, kTokens>, {.grid = blocks, .block = kThreads, .shared = kBytes}, a,
        page_map(a.cache.keys), page_map(a.cache.values));
}

}  // namespace

void attend_prompt(Context& context, const PagedAttention& op) {
  Arguments a{.out = view(op.out),
              .q = view(op.q),
              .rows = rows_view(op.rows),
              .cache = cache_view(op.cache),
              .scale = op.scale * 1.44269504f,
              .window = static_cast<int32_t>(op.window),
              .group = static_cast<int32_t>(op.q.size(1) / op.cache.keys.size(2)),
              .first_sequence = op.rows.thin,
              .size = static_cast<int32_t>(op.q.width())};
  a.q_aligned = begins_at(a.q, 16, a.q.bf16 ? 8 : 4), a.out_aligned = begins_at(a.out, a.out.bf16 ? 4 : 8, 2);
  switch ((a.size + 63) / 64) {
    case 1:
      return attend<64, 128>(context, a);
    case 2:
      return attend<128, 128>(context, a);
    case 3:
      return attend<192, 80>(context, a);
    default:
      return attend<256, 80>(context, a);
  }
}

}  // namespace braid::cuda
