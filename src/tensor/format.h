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

using Format = std::variant<Dense, Fp8Block>;

std::string name_of(const Format& format);                 // "bf16", "fp8_block"
int64_t row_bytes(const Format& format, int64_t columns);  // bytes of the codes of one row
// f32 scales of a matrix of `rows` x `columns`; 0 for formats without scales.
int64_t scale_count(const Format& format, int64_t rows, int64_t columns);
// A piece of a matrix can be used on its own when its first row is a multiple of this.
int64_t row_alignment(const Format& format);

}  // namespace braid
