// The ops Linear and GatedLinear: choosing a kernel, and x in the type that it wants.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

__global__ void round_kernel(__nv_bfloat16* out, View x) {
  const int64_t row = blockIdx.x;
  for (int64_t i = threadIdx.x; i < x.shape[1]; i += blockDim.x)
    out[row * x.shape[1] + i] = __float2bfloat16_rn(get(x, row * x.stride[0] + i));
}

bool aligned(const View& v) {
  const int64_t size = v.bf16 ? 2 : 4;
  return reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride[0] * size % 16 == 0;
}

}  // namespace

View rounded_rows(Context& context, const View& x) {
  View out{.data = context.take<__nv_bfloat16>(x.shape[0] * x.shape[1]), .bf16 = true};
  out.shape[0] = x.shape[0], out.shape[1] = x.shape[1];
  out.stride[0] = x.shape[1], out.stride[1] = 1;
  round_kernel<<<static_cast<unsigned>(x.shape[0]), 256, 0, context.stream()>>>(static_cast<__nv_bfloat16*>(out.data),
                                                                                x);
  return out;
}

void multiply(Context& context, Product p) {
  if (p.slots == 0 || p.codes.rows == 0) return;
  CHECK(p.x.shape[1] == p.codes.columns, "x has {} columns, the weight {}", p.x.shape[1], p.codes.columns);
  ProductExtents extents{.tokens = p.slots,
                         .rows = p.codes.rows,
                         .columns = p.codes.columns,
                         .bf16 = p.codes.coding == Coding::BF16,
                         .fp8 = p.codes.coding == Coding::Fp8,
                         .block_rows = p.codes.block_rows,
                         .block_columns = p.codes.block_columns,
                         .x_bf16 = p.x.bf16,
                         .aligned = aligned(p.x),
                         .exact = p.exact || !context.fast(),
                         .gated = p.gated,
                         .simple = p.groups == nullptr && p.list == nullptr && p.divide == 1 && !p.gated};
  extents.library = p.groups == nullptr && (p.gated || aligned(p.out)) && p.slots > kFewTokens &&
                    p.codes.rows % 8 == 0 && context.matrices() != nullptr;
  const ProductKernel kernel = choose_product(extents);
  if (kernel == ProductKernel::Plain) return multiply_plain(context, p);
  if (kernel == ProductKernel::Exact) return multiply_exact(context, p);
  if (!aligned(p.x) || (kernel == ProductKernel::Wide && !p.x.bf16)) p.x = rounded_rows(context, p.x);
  if (kernel == ProductKernel::Coded) return multiply_coded(context, p);
  kernel == ProductKernel::Thin ? multiply_thin(context, p) : multiply_wide(context, p);
}

void launch(Context& context, const Linear& op) {
  for (const Linear::Target& target : op.targets) {
    if (target.weight == nullptr) break;
    multiply(context, {.out = view(target.out),
                       .x = view(op.x),
                       .codes = codes_of(*target.weight),
                       .exact = op.exact,
                       .slots = op.x.rows()});
  }
}

void launch(Context& context, const GatedLinear& op) {
  CHECK(op.activation == Activation::Silu);
  multiply(context,
           {.out = view(op.out), .x = view(op.x), .codes = codes_of(*op.gate_up), .gated = true, .slots = op.x.rows()});
}

}  // namespace braid::cuda
