// Coded weights as bf16, for kernels that know no coding of theirs. Each number is rounded once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

#include "cuda/common/codes.h"
#include "cuda/common/context.h"

namespace braid::cuda {

// out[i] = row `first` + i of the matrices of `codes`, which lie behind each other; [rows, columns]. FP8 with scales of
// 128 columns, or NVFP4; columns a multiple of 16.
void decode_rows(Context& context, __nv_bfloat16* out, const Codes& codes, int64_t first, int64_t rows);

}  // namespace braid::cuda
