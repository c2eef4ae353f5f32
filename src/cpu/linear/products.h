// Products of rows with a block of a weight's rows: what every op with weight matrices is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include BRAID_UNITS_HEADER
#include "cpu/linear/panel.h"
#include "cpu/share.h"
#include "tensor/tensor.h"

namespace braid::cpu::BRAID_ISA {

// What x must be for a weight: pairs of bfloat16 where that is allowed and loses nothing of the weight, else floats.
BRAID_INLINE Operand operand_for(const Packed& weight, bool fast) {
  const bool exact = weight.coding == Coding::BF16 || weight.coding == Coding::Fp8;
  return kHasPairs && fast && exact ? Operand::Pair : Operand::Float;
}

// Bytes from one prepared row of `columns` values to the next. Beyond its values a row has zeros for a line or more, as
// products read whole lines; an odd number of cache lines keeps rows out of each other's way in the cache.
BRAID_INLINE int64_t prepared_stride(Operand operand, int64_t columns) {
  const int64_t lines = (columns * (operand == Operand::Pair ? 2 : 4) + 63) / 64 + 4;
  return (lines | 1) * 64;
}

// Converts a row of f32 or bf16 into the form that products read.
void prepare_row(Operand operand, const Tensor& x, int64_t row, uint8_t* out);
void prepare_row(Operand operand, const float* values, int64_t columns, uint8_t* out);

struct Product {
  const Packed* weight = nullptr;
  Operand operand = Operand::Float;
  int64_t row = 0;                    // first of the weight's rows, counted over all matrices
  int64_t rows = 0;                   // that many
  const uint8_t* const* x = nullptr;  // prepared rows
  int64_t tokens = 0;
  float* out = nullptr;  // [tokens, stride], aligned to 64
  int64_t stride = 0;    // floats, a multiple of kLanes, at least `rows` rounded up to that
};

// out[t, n] = x[t] * W[row + n]. Columns of `out` up to the next multiple of kLanes are written as well. The bits of an
// output do not depend on `tokens`, nor on which rows are computed together.
void product(const Product& product);

}  // namespace braid::cpu::BRAID_ISA
