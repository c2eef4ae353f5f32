// How the numbers of a weight matrix are coded: one type per coding, so that none can be taken for another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "tensor/dtype.h"

namespace braid {

// Plain floats: F32, BF16 or F16, row-major.
struct Dense {
  DType dtype = DType::BF16;
  bool operator==(const Dense&) const = default;
};

// E4M3 codes, row-major, with one f32 scale per block: w[n, k] = code[n, k] * scale[n div block_rows, k div
// block_columns]. The last blocks of rows and columns may be partial.
struct Fp8Block {
  int block_rows = 128;
  int block_columns = 128;
  bool operator==(const Fp8Block&) const = default;
};

// E4M3 codes with one f32 scale a row; a scale of a whole tensor is repeated, so that fused parts keep their own.
struct Fp8Row {
  bool operator==(const Fp8Row&) const = default;
};

// Whole numbers from -127 to 127 with one f32 scale a row.
struct Int8Row {
  bool operator==(const Int8Row&) const = default;
};

// E2M1 codes, two a byte, the even column in the low half; an E4M3 scale for each 16 columns and one f32 scale a row,
// which repeats the tensor's: w[n, k] = code[n, k] * group[n, k div 16] * scale[n].
struct Nvfp4 {
  static constexpr int kGroup = 16;
  bool operator==(const Nvfp4&) const = default;
};

using Format = std::variant<Dense, Fp8Block, Fp8Row, Int8Row, Nvfp4>;

std::string name_of(const Format& format);                 // "bf16", "fp8_block", "fp8_row", "int8_row", "nvfp4"
int64_t row_bytes(const Format& format, int64_t columns);  // bytes of the codes of one row
// Bytes of the scales of groups of columns of one row; 0 for formats without them.
int64_t group_bytes(const Format& format, int64_t columns);
// A row can only have a multiple of so many columns.
int64_t column_alignment(const Format& format);
// f32 scales of a matrix of `rows` x `columns`; 0 for formats without scales.
int64_t scale_count(const Format& format, int64_t rows, int64_t columns);
// A piece of a matrix can be used on its own when its first row is a multiple of this.
int64_t row_alignment(const Format& format);

}  // namespace braid
