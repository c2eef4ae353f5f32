// A panel: the kLanes rows of a weight that one vector of outputs belongs to, and the chunks of columns that are summed
// before a scale is applied.
//
// The order of every sum is fixed by shape and format alone (LIN-5). A chunk has at most kChunk columns, under one
// scale. Its units go to four slots, unit u to slot u mod 4; a slot adds its products in order of u. A chunk's sum is
// (slot 0 + slot 1) + (slot 2 + slot 3), and an output is the chain of fma(chunk sum, scale, so far) over the chunks.
// Thin products keep the slots in the lanes of a vector, wide ones in four vectors: the bits are the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/packing.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {

constexpr int kChunk = 128;

struct Panel {
  const uint8_t* codes[kLanes];  // of each row; rows that do not exist repeat the last one
  const float* scales[kLanes];   // of each row, one per block of columns; the first is null where there are none
  bool one_scale = true;         // all rows have the first row's scales, and only that is set
};

// Rows [row, row + n) of all rows of the weight, 1 <= n <= kLanes.
BRAID_INLINE Panel make_panel(const Packed& weight, int64_t row, int64_t n) {
  Panel panel;
  const bool scaled = weight.scale_columns > 0;
  const Packed::Segment* segment = &weight.find(row);
  const int64_t within = row - segment->first;
  const auto block = static_cast<uint32_t>(scaled ? within / weight.block_rows : 0);
  if (row + n <= segment->end && (!scaled || within + n <= (block + int64_t{1}) * weight.block_rows)) {
    const uint8_t* codes = segment->codes + within * weight.row_bytes;
    for (int64_t i = 0; i < kLanes; ++i) panel.codes[i] = codes + (i < n ? i : n - 1) * weight.row_bytes;
    panel.scales[0] = scaled ? segment->scales + block * weight.scale_columns : nullptr;
    return panel;
  }
  panel.one_scale = !scaled;
  panel.scales[0] = nullptr;
  for (int64_t i = 0; i < kLanes; ++i) {
    const int64_t at = row + (i < n ? i : n - 1);
    if (at >= segment->end) segment = &weight.find(at);
    panel.codes[i] = segment->codes + (at - segment->first) * weight.row_bytes;
    if (scaled) panel.scales[i] = segment->scales + (at - segment->first) / weight.block_rows * weight.scale_columns;
  }
  return panel;
}

// What the sum of a chunk is multiplied by, a lane per row.
BRAID_INLINE Vec scales_of(const Panel& panel, int64_t block, float factor) {
  if (panel.scales[0] == nullptr) return splat(1.0f);
  if (panel.one_scale) return splat(panel.scales[0][block] * factor);
  alignas(64) float scales[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) scales[i] = panel.scales[i][block] * factor;
  return load(scales);
}

// Walks over the chunks of a row.
struct Chunk {
  int64_t at = 0;      // first column
  int64_t length = 0;  // columns
  int64_t block = 0;   // of scales

  [[gnu::always_inline]] explicit Chunk(const Packed& weight) { begin(weight); }
  [[gnu::always_inline]] void next(const Packed& weight) {
    at += length;
    if (weight.scale_columns > 0 && at >= (block + 1) * weight.block_columns) ++block;
    begin(weight);
  }

 private:
  [[gnu::always_inline]] void begin(const Packed& weight) {
    const int64_t border = weight.scale_columns > 0 ? (block + 1) * weight.block_columns : weight.columns;
    const int64_t end = border < weight.columns ? border : weight.columns;
    length = end - at < kChunk ? end - at : kChunk;
  }
};

}  // namespace braid::cpu::BRAID_ISA
