// Products of many rows of x with panels that were unpacked to units first.
//
// Tile: kTileRows rows of x by one panel by kTileSlots slots, all in registers; per unit of x one load of kLanes
// weights for all rows and one broadcast a row. An unpacked block of a panel is 16 KiB and stays in the first-level
// cache while the rows of x pass by. Bound by multiply-adds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/linear/thin.h"

namespace braid::cpu::BRAID_ISA {

template <Operand operand>
constexpr int64_t kChunkUnits = kChunk* bytes_of(operand) / 4;
// Chunks that are unpacked at a time.
template <Operand operand>
constexpr int64_t kBlockChunks = (16 << 10) / (kChunkUnits<operand> * 4 * kLanes);

// Some chunks of a panel as units, chunk by chunk: kLanes rows of unit 0, of unit 1 ...
struct Unpacked {
  int64_t chunks = 0;
  int32_t at[16];     // first column of each
  int32_t units[16];  // of each, a multiple of four; those beyond the chunk's columns are zero
  alignas(64) float scales[16][kLanes];
  alignas(64) uint8_t bytes[16 << 10];
};

// A chunk of all rows of a panel, brought together where the rows themselves compete for one set of the first-level
// cache.
template <Coding coding>
struct NearRows {
  static constexpr int64_t kBytes = kChunk * bytes_of(coding), kStride = kBytes + 64;
  const uint8_t* codes[kLanes];  // as in Panel, for the columns of the chunk alone
  alignas(64) uint8_t bytes[kLanes * kStride];

  [[gnu::always_inline]] void copy(const Panel& panel, int64_t from, int64_t ahead) {
    for (int row = 0; row < kLanes; ++row) {
      const uint8_t* codes_of_row = panel.codes[row] + from;
      for (int64_t i = 0; i < kBytes; i += kLineBytes) {
        store_units(bytes + row * kStride + i, load_units(codes_of_row + i));
        __builtin_prefetch(codes_of_row + i + ahead, 0, 2);
      }
      codes[row] = bytes + row * kStride - from;
    }
  }
};

template <Coding coding, Operand operand>
void unpack_chunk(const Packed& weight, const Panel& panel, const Chunk& chunk, uint8_t* out) {
  constexpr int kVectors = Decoder<coding, operand>::kVectors;
  constexpr int64_t kColumns = kLineBytes / bytes_of(coding);
  const Decoder<coding, operand> decoder;
  const int64_t ahead = bytes_ahead(weight);
  NearRows<coding> near;
  const bool direct = !crowded(weight) || chunk.length < kChunk;
  if (!direct) near.copy(panel, chunk.at * bytes_of(coding), ahead);
  const uint8_t* const* codes = direct ? panel.codes : near.codes;
  for (int64_t k = 0; k < chunk.length; k += kColumns) {
    const int64_t at = (chunk.at + k) * bytes_of(coding);
    if (direct) fetch_lines<4>(codes, at + ahead);
    Lines lines[4];
    for (int g = 0; g < 4; ++g) {
      if (k + kColumns <= chunk.length) {
        lines[g] = load_lines(codes + g, at);
      } else {
        lines[g] = load_lines_part(codes + g, at, (chunk.length - k) * bytes_of(coding));
      }
    }
    for (int part = 0; part < kParts; ++part) {
      Ints units[4][kVectors];
      for (int g = 0; g < 4; ++g) decoder.decode(lines[g].parts[part], units[g]);
      for (int v = 0; v < kVectors; ++v) {
        Ints slots[4] = {units[0][v], units[1][v], units[2][v], units[3][v]};
        transpose_units(slots, slots);
        for (int l = 0; l < 4; ++l, out += 4 * kLanes) store_units(out, slots[l]);
      }
    }
  }
}

// Unpacks chunks from `chunk` on, as many as fit, and moves it on.
template <Coding coding, Operand operand>
void unpack_block(const Packed& weight, const Panel& panel, Chunk& chunk, Unpacked& out) {
  out.chunks = 0;
  for (; chunk.length > 0 && out.chunks < kBlockChunks<operand>; chunk.next(weight), ++out.chunks) {
    const int64_t c = out.chunks;
    out.at[c] = static_cast<int32_t>(chunk.at);
    out.units[c] = static_cast<int32_t>((chunk.length * bytes_of(operand) + 15) / 16 * 4);
    store(out.scales[c], scales_of(panel, chunk.block, coding == Coding::Fp8 ? kFp8Factor : 1.0f));
    unpack_chunk<coding, operand>(weight, panel, chunk, out.bytes + c * kChunkUnits<operand> * 4 * kLanes);
  }
}

// out[m] (kLanes floats, rows `stride` floats apart) continues the sums of `rows` rows of x, or begins them.
template <Operand operand, int rows>
void tile_product(const Unpacked& weight, const uint8_t* const* x, bool begins, float* out, int64_t stride) {
  Vec totals[rows];
  for (int m = 0; m < rows; ++m) totals[m] = begins ? zero() : load(out + m * stride);
  for (int64_t c = 0; c < weight.chunks; ++c) {
    const uint8_t* panel = weight.bytes + c * kChunkUnits<operand> * 4 * kLanes;
    const uint8_t* from[rows];
    for (int m = 0; m < rows; ++m) from[m] = x[m] + weight.at[c] * bytes_of(operand);
    Vec slots[rows][4];
    const int64_t bytes = 4 * int64_t{weight.units[c]};
#pragma GCC unroll 4
    for (int first = 0; first < 4; first += kTileSlots) {
      Vec sums[rows][kTileSlots];
      for (int m = 0; m < rows; ++m)
        for (int l = 0; l < kTileSlots; ++l) sums[m][l] = zero();
      for (int64_t u = 4 * first; u < bytes; u += 16) {
        for (int l = 0; l < kTileSlots; ++l) {
          const Ints units = load_units(panel + (u + 4 * l) * kLanes);
          for (int m = 0; m < rows; ++m)
            sums[m][l] = add_product<operand>(sums[m][l], units, one_unit(from[m] + u + 4 * l));
        }
      }
      for (int m = 0; m < rows; ++m)
        for (int l = 0; l < kTileSlots; ++l) slots[m][first + l] = sums[m][l];
    }
    const Vec scales = load(weight.scales[c]);
    for (int m = 0; m < rows; ++m)
      totals[m] = fma((slots[m][0] + slots[m][1]) + (slots[m][2] + slots[m][3]), scales, totals[m]);
  }
  for (int m = 0; m < rows; ++m) store(out + m * stride, totals[m]);
}

}  // namespace braid::cpu::BRAID_ISA
