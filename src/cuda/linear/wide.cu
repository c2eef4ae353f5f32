// Products for many rows of x: the matrix library in bf16. FP8 and NVFP4 weights are decoded to bf16 in work memory
// first, some rows at a time; a gated pair is multiplied to f32 and joined after. Bounded by the tensor cores' bf16
// rate.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/linear/decoded.h"
#include "cuda/linear/matrix_library.h"
#include "cuda/linear/product.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // of work memory for a weight's rows, and for a gated pair

__global__ void join_kernel(View out, const float* both, int64_t width) {
  const int64_t row = blockIdx.x;
  for (int64_t n = threadIdx.x; n < width; n += blockDim.x)
    put(out, row * out.stride[0] + n, silu(both[row * 2 * width + n]) * both[row * 2 * width + width + n]);
}

View at_row(const View& v, int64_t row) {
  View out = v;
  out.data = static_cast<char*>(v.data) + row * v.stride[0] * (v.bf16 ? 2 : 4);
  return out;
}

// Work memory for decoded rows of a weight.
struct Decoded {
  __nv_bfloat16* data = nullptr;
  int64_t rows = 0;
};

Decoded take_decoded(Context& context, const Codes& codes) {
  if (codes.coding == Coding::BF16) return {};
  const int64_t rows = std::min(codes.rows, std::max<int64_t>(128, kMostBytes / (2 * codes.columns) / 128 * 128));
  return {context.take<__nv_bfloat16>(rows * codes.columns), rows};
}

// out = x * W^T for the first `tokens` rows of x, weights decoded piece by piece where they are coded.
void multiply_all(Context& context, const Product& p, const Decoded& decoded, int64_t tokens) {
  const Codes& codes = p.codes;
  const View &out = p.out, &x = p.x;
  MatrixProduct product{.out = out.data,
                        .out_bf16 = out.bf16,
                        .x = x.data,
                        .w = codes.data,
                        .tokens = tokens,
                        .rows = codes.rows,
                        .columns = codes.columns,
                        .out_stride = out.stride[0],
                        .x_stride = x.stride[0]};
  if (codes.coding == Coding::BF16) return context.matrices()->multiply(product);
  product.w = decoded.data;
  for (int64_t first = 0; first < codes.rows; first += decoded.rows) {
    product.rows = std::min(decoded.rows, codes.rows - first);
    product.out = static_cast<char*>(out.data) + first * (out.bf16 ? 2 : 4);
    decode_rows(context, decoded.data, codes, first, product.rows);
    context.matrices()->multiply(product);
  }
}

}  // namespace

void multiply_wide(Context& context, const Product& p) {
  if (p.codes.coding == Coding::Fp8)
    context.say_once("cuda: wide products decode FP8 weights whose blocks are not 128 x 128 to bf16 first");
  const Decoded decoded = take_decoded(context, p.codes);
  if (!p.gated) return multiply_all(context, p, decoded, p.slots);
  const int64_t most = std::max<int64_t>(128, kMostBytes / (4 * p.codes.rows)), piece = std::min(most, p.slots);
  Product part = p;
  part.out = {.data = context.take<float>(piece * p.codes.rows), .stride = {p.codes.rows}};
  for (int64_t first = 0; first < p.slots; first += piece) {
    const int64_t tokens = std::min(piece, p.slots - first);
    part.x = at_row(p.x, first);
    multiply_all(context, part, decoded, tokens);
    join_kernel<<<static_cast<unsigned>(tokens), 256, 0, context.stream()>>>(
        at_row(p.out, first), static_cast<const float*>(part.out.data), p.outputs());
  }
}

}  // namespace braid::cuda
