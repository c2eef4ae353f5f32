// What a block of the prompt kernel works on, its shared memory, and the warps that bring keys and values into it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "cuda/attention/hopper.h"
#include "cuda/attention/kernels.h"
#include "cuda/attention/page_map.h"
#include "cuda/common/reduce.h"

namespace braid::cuda::prompt {

constexpr int kRows = 128;  // of a block
constexpr int kStages = 2;
constexpr int kThreads = 384;  // two warpgroups that multiply, then one that copies
constexpr int kCopiers = 64;   // threads that copy keys, and as many for values
constexpr float kNone = -INFINITY;

struct Arguments {
  View out, q;
  RowsView rows;
  CacheView cache;
  float scale;  // times log2(e)
  int32_t window, group, first_sequence, size;
  bool q_aligned, out_aligned;  // eight numbers of q begin at 16 bytes, two of out at their size
};

// What a block works on. Rows count through the tokens of the sequence, `group` to a token.
struct Tile {
  int32_t sequence, kv_head;
  int32_t first_token, first_position;  // of the sequence in this pass
  int32_t first, end;                   // rows of the tile; the sequence may end before `first` + kRows
  int32_t low, high;                    // positions that some row sees: [low, high]
};

// Byte offsets in shared memory. Each matrix is a row of panels of 64 columns.
template <int kSize, int kTokens>
struct Layout {
  static constexpr int kPanels = kSize / 64;
  static constexpr uint32_t kQueryPanel = kRows * 128, kPanel = kTokens * 128;
  static constexpr uint32_t kTile = kPanel * kPanels;
  static constexpr uint32_t kKeys = kQueryPanel * kPanels, kValues = kKeys + kStages * kTile;
  static constexpr uint32_t kBarriers = kValues + kStages * kTile;  // full keys, empty keys, full values, empty values
  static constexpr uint32_t kBytes = kBarriers + 4 * kStages * 8 + 1024;  // the start is rounded up
};

struct Barriers {
  uint32_t full, empty;  // of stage 0
  __device__ void wait_full(int round) const { wait_phase(full + round % kStages * 8, round / kStages & 1); }
  __device__ void wait_empty(int round) const { wait_phase(empty + round % kStages * 8, (round / kStages & 1) ^ 1); }
  __device__ void arrive_full(int round) const { arrive(full + round % kStages * 8); }
  __device__ void arrive_empty(int round) const { arrive(empty + round % kStages * 8); }
};

// Tiles are counted from the last one of the last sequence backwards, since those see the most keys. False past all.
__device__ inline bool find_tile(const Arguments& a, int32_t index, Tile& tile) {
  const int lane = threadIdx.x % 32;
  for (int32_t last = a.rows.sequences - 1; last >= a.first_sequence; last -= 32) {
    const int32_t s = last - lane;
    int32_t rows = 0;
    if (s >= a.first_sequence) rows = (a.rows.starts[s + 1] - a.rows.starts[s]) * a.group;
    const int32_t count = (rows + kRows - 1) / kRows;
    int32_t upto = count;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t other = __shfl_up_sync(kAllLanes, upto, offset);
      if (lane >= offset) upto += other;
    }
    const unsigned above = __ballot_sync(kAllLanes, upto > index);
    if (above == 0) {
      index -= __shfl_sync(kAllLanes, upto, 31);
      continue;
    }
    const int at = __ffs(static_cast<int>(above)) - 1;
    tile.sequence = last - at;
    rows = __shfl_sync(kAllLanes, rows, at);
    tile.first = (__shfl_sync(kAllLanes, upto, at) - 1 - index) * kRows;
    tile.end = min(rows, tile.first + kRows);
    tile.first_token = a.rows.starts[tile.sequence];
    tile.first_position = a.rows.positions[tile.first_token];
    tile.high = tile.first_position + (tile.end - 1) / a.group;
    tile.low = a.window > 0 ? max(0, tile.first_position + tile.first / a.group - a.window + 1) : 0;
    return true;
  }
  return false;
}

// What two warps copy: keys or values.
struct Source {
  const View& pages;
  const CUtensorMap& map;
  uint32_t memory;  // of stage 0
  Barriers barriers;
};

// A tile that no row's limit cuts, by the copy engine.
template <int kSize, int kTokens>
__device__ void copy_whole(const Arguments& a, const Tile& tile, const Source& from, int32_t t, int round) {
  using L = Layout<kSize, kTokens>;
  constexpr int kBoxes = kTokens / kBoxPositions * L::kPanels;
  constexpr uint32_t kBoxBytes = kBoxPositions * 128;
  static_assert(kBoxes <= kCopiers);
  const int thread = static_cast<int>(threadIdx.x) % kCopiers;
  if (thread >= kBoxes) return from.barriers.arrive_full(round);
  const int box = thread / L::kPanels, panel = thread % L::kPanels;
  const uint32_t full = from.barriers.full + round % kStages * 8;
  const int32_t place = place_of(a.cache, tile.sequence, t * kTokens + box * kBoxPositions);
  arrive_expecting(full, kBoxBytes);
  copy_box(from.memory + round % kStages * L::kTile + panel * L::kPanel + box * kBoxBytes, &from.map,
           {panel * 64, tile.kv_head, place}, full);
}

// Any tile; positions that no row sees are cleared, since they may hold anything.
template <int kSize, int kTokens>
__device__ void copy_seen(const Arguments& a, const Tile& tile, const Source& from, int32_t t, int round) {
  using L = Layout<kSize, kTokens>;
  const int thread = static_cast<int>(threadIdx.x) % kCopiers, piece = thread % 8;
  const auto* data =
      static_cast<const __nv_bfloat16*>(from.pages.data) + tile.kv_head * from.pages.stride[2] + piece * 8;
  const uint32_t stage = from.memory + round % kStages * L::kTile;
#pragma unroll 2
  for (int row = thread / 8; row < kTokens; row += kCopiers / 8) {
    const int32_t position = t * kTokens + row;
    const bool seen = position >= tile.low && position <= tile.high;
    const int64_t place = seen ? place_of(a.cache, tile.sequence, position) : 0;
    const __nv_bfloat16* source = data + place * from.pages.stride[1];
#pragma unroll
    for (int panel = 0; panel < L::kPanels; ++panel)
      copy_16(stage + panel * L::kPanel + swizzled(row, piece), source + panel * 64,
              seen && panel * 64 + piece * 8 < a.size);
  }
  close_copies();
  wait_copies<0>();
  publish_shared();
  from.barriers.arrive_full(round);
}

template <int kSize, int kTokens>
__device__ void copy_tiles(const Arguments& a, const Tile& tile, const Source& from) {
  const int32_t begin = tile.low / kTokens, end = tile.high / kTokens;
  for (int32_t t = begin; t <= end; ++t) {
    from.barriers.wait_empty(t - begin);
    if (t * kTokens >= tile.low && t * kTokens + kTokens - 1 <= tile.high)
      copy_whole<kSize, kTokens>(a, tile, from, t, t - begin);
    else
      copy_seen<kSize, kTokens>(a, tile, from, t, t - begin);
  }
}

}  // namespace braid::cuda::prompt
