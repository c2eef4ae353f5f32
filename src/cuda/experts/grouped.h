// Products by groups of many rows, each with the matrix of one expert, on Hopper's tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "cuda/linear/product.h"

namespace braid::cuda {

// Columns of one tile: a weight is read once for so many.
constexpr int32_t kWideColumns = 192;

// As Product by groups, whose slots times the codes of each are at most kWideColumns. x is bf16 with rows at 16 bytes;
// or coded, where the weight is FP8. out is bf16, its rows at 4 bytes.
struct GroupedProduct {
  Product product;
  CodedRows x;
};

bool grouped_takes(const Context& context, const Codes& codes, bool gated);
void multiply_grouped(Context& context, const GroupedProduct& grouped);

}  // namespace braid::cuda
