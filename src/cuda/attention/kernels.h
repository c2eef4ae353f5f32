// The kernels of PagedAttention. Those on tensor cores take keys and values in bf16 whose heads, of 64 to 256 numbers
// in steps of 8, begin at 16 bytes, in pages of a multiple of 16 positions; any queries; and a positive scale.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/attention/rows.h"
#include "cuda/common/context.h"
#include "cuda/common/error.h"
#include "ops/attention.h"

namespace braid::cuda {

// Every head of a [rows, heads, size] tensor begins at a multiple of `bytes`; strides are multiples of `elements`.
inline bool begins_at(const View& v, uintptr_t bytes, int64_t elements) {
  return reinterpret_cast<uintptr_t>(v.data) % bytes == 0 && v.stride[0] % elements == 0 && v.stride[1] % elements == 0;
}

// Keys or values are bf16 heads of `size` that begin at 16 bytes.
inline bool aligned_pages(const Tensor& pages, int64_t size) {
  return pages.dtype == DType::BF16 && reinterpret_cast<uintptr_t>(pages.data) % 16 == 0 && pages.stride(1) % 8 == 0 &&
         pages.stride(2) % 8 == 0 && pages.width() == size;
}

// The rows of all sequences but the first `thin` ones. Hopper alone.
void attend_prompt(Context& context, const PagedAttention& op);
// The rows of the first `thin` sequences, one each. Hopper and later devices.
void attend_single_rows(Context& context, const PagedAttention& op);
// The rows from `first` on, in f32, of any layout.
void attend_plain(Context& context, const PagedAttention& op, int32_t first);

}  // namespace braid::cuda
