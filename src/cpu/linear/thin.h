// Products of one to four rows of x with a panel, straight from the coded rows of the weight.
//
// Each byte of the weight is read once for all rows of x. A vector holds a few columns of kParts rows, so what is added
// up over columns are four partial sums (slots) of each row, which are transposed and added once per chunk. Bound by
// the weight's bytes for one or two rows, then by decoding (about six shuffles per 64 bytes of E4M3).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include BRAID_UNITS_HEADER
#include "cpu/linear/panel.h"
#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {

constexpr int kThinRows = 4;
// Whether equal columns of a panel's rows fall into one or two sets of the first-level cache, which keep eight lines
// each.
BRAID_INLINE bool crowded(const Packed& weight) { return kLanes > 8 && weight.row_bytes % 2048 == 0; }

// Fetches lines of a later panel into the second-level cache: what the hardware foresees of sixteen rows at once comes
// too late from memory, and does not reach the next panel. Beyond the end of the weight it does nothing.
constexpr int64_t kAhead = 8 << 10;
BRAID_INLINE int64_t bytes_ahead(const Packed& weight) { return round_up(kAhead, kLanes * weight.row_bytes); }
template <int groups>
BRAID_INLINE void fetch_lines(const uint8_t* const* codes, int64_t at) {
  for (int g = 0; g < groups; ++g)
    for (int row = 0; row < kLanes; row += 4) __builtin_prefetch(codes[row + g] + at, 0, 2);
}

constexpr int64_t bytes_of(Coding coding) { return coding == Coding::Fp8 ? 1 : coding == Coding::F32 ? 4 : 2; }

// One line of `together` groups: sums[m][g] += line * x[m], a vector for each row of x and group. Groups take turns, as
// a sum is not ready for its next product at once.
template <Coding coding, Operand operand, int rows, int together, bool whole>
BRAID_INLINE void add_line(const Decoder<coding, operand>& decoder, const uint8_t* const* codes, int64_t at,
                           int64_t bytes, const uint8_t* const* x, Vec (*sums)[4]) {
  constexpr int kVectors = Decoder<coding, operand>::kVectors;
  Lines lines[together];
  for (int g = 0; g < together; ++g)
    lines[g] = whole ? load_lines(codes + g, at) : load_lines_part(codes + g, at, bytes);
  for (int part = 0; part < kParts; ++part) {
    Ints units[together][kVectors];
    for (int g = 0; g < together; ++g) decoder.decode(lines[g].parts[part], units[g]);
    for (int v = 0; v < kVectors; ++v) {
      for (int m = 0; m < rows; ++m) {
        const Ints values = four_units(x[m] + 16 * (part * kVectors + v));
        for (int g = 0; g < together; ++g) sums[m][g] = add_product<operand>(sums[m][g], units[g][v], values);
      }
    }
  }
}

template <Coding coding, Operand operand, int rows, int together>
void thin_product(const Packed& weight, const Panel& panel, const uint8_t* const* x, Vec* out) {
  constexpr int64_t kColumns = kLineBytes / bytes_of(coding);
  const Decoder<coding, operand> decoder;
  const int64_t ahead = bytes_ahead(weight);
  for (int m = 0; m < rows; ++m) out[m] = zero();
  for (Chunk chunk(weight); chunk.length > 0; chunk.next(weight)) {
    Ints slots[rows][4];
    for (int first = 0; first < 4; first += together) {
      Vec sums[rows][4];
      for (int m = 0; m < rows; ++m)
        for (int g = 0; g < together; ++g) sums[m][g] = zero();
      const uint8_t* from[rows];
      for (int m = 0; m < rows; ++m) from[m] = x[m] + chunk.at * bytes_of(operand);
      const uint8_t* const* codes = panel.codes + first;
      int64_t k = 0;
      for (; k + kColumns <= chunk.length; k += kColumns) {
        const int64_t at = (chunk.at + k) * bytes_of(coding);
        fetch_lines<together>(codes, at + ahead);
        add_line<coding, operand, rows, together, true>(decoder, codes, at, 0, from, sums);
        for (int m = 0; m < rows; ++m) from[m] += kColumns * bytes_of(operand);
      }
      if (k < chunk.length) {
        const int64_t at = (chunk.at + k) * bytes_of(coding), bytes = (chunk.length - k) * bytes_of(coding);
        add_line<coding, operand, rows, together, false>(decoder, codes, at, bytes, from, sums);
      }
      for (int m = 0; m < rows; ++m)
        for (int g = 0; g < together; ++g) slots[m][first + g] = bits_of(sums[m][g]);
    }
    const Vec scales = scales_of(panel, chunk.block, coding == Coding::Fp8 ? kFp8Factor : 1.0f);
    for (int m = 0; m < rows; ++m) {
      transpose_units(slots[m], slots[m]);
      const Vec low = from_bits(slots[m][0]) + from_bits(slots[m][1]);
      const Vec high = from_bits(slots[m][2]) + from_bits(slots[m][3]);
      out[m] = fma(low + high, scales, out[m]);
    }
  }
}

}  // namespace braid::cpu::BRAID_ISA
