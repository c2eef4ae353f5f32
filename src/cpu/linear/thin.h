// Products of one to four rows of x with a panel, straight from the coded rows of the weight.
//
// Each byte of the weight is read once for all rows of x. A vector holds a few columns of kParts rows, so what is added
// up over columns are four partial sums (slots) of each row, which are transposed and added once per chunk. Bound by
// the weight's bytes for one or two rows, then by decoding (about six shuffles per 64 bytes of E4M3).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include BRAID_UNITS_HEADER
#include "cpu/linear/panel.h"

namespace braid::cpu::BRAID_ISA {

constexpr int kThinRows = 4;

constexpr int64_t bytes_of(Coding coding) { return coding == Coding::Fp8 ? 1 : coding == Coding::F32 ? 4 : 2; }

// One line of all four groups: sums[m][g] += line * x[m], a vector for each row of x and group of the panel.
template <Coding coding, Operand operand, int rows, bool whole>
BRAID_INLINE void add_line(const Decoder<coding, operand>& decoder, const Panel& panel, int64_t at, int64_t bytes,
                           const uint8_t* const* x, Vec sums[rows][4]) {
  constexpr int kVectors = Decoder<coding, operand>::kVectors;
  for (int g = 0; g < 4; ++g) {
    const Lines lines = whole ? load_lines(panel.codes + g, at) : load_lines_part(panel.codes + g, at, bytes);
    for (int part = 0; part < kParts; ++part) {
      Ints units[kVectors];
      decoder.decode(lines.parts[part], units);
      for (int v = 0; v < kVectors; ++v)
        for (int m = 0; m < rows; ++m)
          sums[m][g] = add_product<operand>(sums[m][g], units[v], four_units(x[m] + 16 * (part * kVectors + v)));
    }
  }
}

template <Coding coding, Operand operand, int rows>
void thin_product(const Packed& weight, const Panel& panel, const uint8_t* const* x, Vec* out) {
  constexpr int64_t kColumns = kLineBytes / bytes_of(coding);
  const Decoder<coding, operand> decoder;
  for (int m = 0; m < rows; ++m) out[m] = zero();
  for (Chunk chunk(weight); chunk.length > 0; chunk.next(weight)) {
    Vec sums[rows][4];
    for (int m = 0; m < rows; ++m)
      for (int g = 0; g < 4; ++g) sums[m][g] = zero();
    const uint8_t* from[rows];
    for (int m = 0; m < rows; ++m) from[m] = x[m] + chunk.at * bytes_of(operand);
    int64_t k = 0;
    for (; k + kColumns <= chunk.length; k += kColumns) {
      add_line<coding, operand, rows, true>(decoder, panel, (chunk.at + k) * bytes_of(coding), 0, from, sums);
      for (int m = 0; m < rows; ++m) from[m] += kColumns * bytes_of(operand);
    }
    if (k < chunk.length)
      add_line<coding, operand, rows, false>(decoder, panel, (chunk.at + k) * bytes_of(coding),
                                             (chunk.length - k) * bytes_of(coding), from, sums);
    const Vec scales = scales_of(panel, chunk.block, coding == Coding::Fp8 ? kFp8Factor : 1.0f);
    for (int m = 0; m < rows; ++m) {
      Ints slots[4];
      for (int g = 0; g < 4; ++g) slots[g] = bits_of(sums[m][g]);
      transpose_units(slots, slots);
      const Vec sum = (from_bits(slots[0]) + from_bits(slots[1])) + (from_bits(slots[2]) + from_bits(slots[3]));
      out[m] = fma(sum, scales, out[m]);
    }
  }
}

}  // namespace braid::cpu::BRAID_ISA
