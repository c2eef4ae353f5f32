// Products of many rows of x with FP8 weights in blocks of 128 x 128: x is coded in E4M3 with a scale per row and 128
// columns, and the matrix library multiplies codes. One code a number where the checkpoint's own way of multiplying is
// wanted (W8A8); two where x must stay as near as bf16: the second codes what the first left, sixteen times as large,
// in a row of its own, and both products are added (W8A16, at half the rate). Bounded by the tensor cores' FP8 rate;
// coding x reads it once. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/reduce.h"
#include "cuda/linear/coding.h"
#include "cuda/linear/matrix_library.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // of work memory for products that are joined after
constexpr int kLanes = 8;                           // that share 128 columns

__global__ void code_kernel(CodedRows out, View x) {
  const int64_t row = blockIdx.x, from = min(row, x.shape[0] - 1), columns = x.shape[1], rows = out.pieces * out.tokens;
  for (int64_t column = threadIdx.x * int64_t{16}; column < columns; column += blockDim.x * int64_t{16}) {
    float values[16];
    load_16(values, x, from * x.stride[0] + column);
    const float scale = scale_of<kLanes>(values);
    uint32_t words[4];
    code_16(words, values, 1 / scale);
    *reinterpret_cast<uint4*>(out.codes + row * columns + column) = {words[0], words[1], words[2], words[3]};
    float* scales = out.scales + column / 128 * rows + row;
    if (threadIdx.x % kLanes == 0) *scales = scale;
    if (out.pieces == 1) continue;
    code_rest_16(words, values, 1 / scale);
    *reinterpret_cast<uint4*>(out.codes + (out.tokens + row) * columns + column) = {words[0], words[1], words[2],
                                                                                    words[3]};
    if (threadIdx.x % kLanes == 0) scales[out.tokens] = scale * kRestScale;
  }
}

View rows_from(const View& v, int64_t first, int64_t count) {
  View out = v;
  out.data = static_cast<char*>(v.data) + first * v.stride[0] * (v.bf16 ? 2 : 4);
  out.shape[0] = count;
  return out;
}

// Products of all coded rows with rows [first, first + rows) of the weight.
void multiply_codes(Context& context, const CodedRows& x, const Codes& codes, int64_t first, int64_t rows,
                    const View& out) {
  context.matrices()->multiply({.out = out.data,
                                .out_bf16 = out.bf16,
                                .x = x.codes,
                                .w = codes.data + first * codes.columns,
                                .tokens = x.pieces * x.tokens,
                                .rows = rows,
                                .columns = codes.columns,
                                .out_stride = out.stride[0],
                                .x_stride = codes.columns,
                                .x_scales = x.scales,
                                .w_scales = codes.scales + first / 128 * codes.scale_columns});
}

struct Joining {
  View out;
  const float* parts;  // [pieces * tokens, width]; gated: gate, then up, each `outputs` wide
  int64_t tokens, width, outputs;
  int pieces;
  bool gated;
};

__global__ void join_kernel(Joining a) {
  const int64_t row = blockIdx.x;
  const float *first = a.parts + row * a.width, *rest = first + a.tokens * a.width;
  const auto at = [&](int64_t n) { return a.pieces == 1 ? first[n] : first[n] + rest[n]; };
  for (int64_t n = threadIdx.x; n < a.outputs; n += blockDim.x)
    put(a.out, row * a.out.stride[0] + n, a.gated ? silu(at(n)) * at(a.outputs + n) : at(n));
}

// Some rows of x, through memory for the parts of a gated pair or of two codes.
void multiply_joined(Context& context, const Product& p, const CodedRows& x, float* parts, int64_t width) {
  const int64_t outputs = p.outputs();
  for (int64_t first = 0; first < outputs; first += width) {
    const int64_t some = std::min(width, outputs - first), all = p.gated ? 2 * some : some;
    View out{.data = parts, .stride = {all}};
    multiply_codes(context, x, p.codes, first, some, out);
    if (p.gated) {
      out.data = parts + some;
      multiply_codes(context, x, p.codes, outputs + first, some, out);
    }
    Joining joining{.out = p.out,
                    .parts = parts,
                    .tokens = x.tokens,
                    .width = all,
                    .outputs = some,
                    .pieces = x.pieces,
                    .gated = p.gated};
    joining.out.data = static_cast<char*>(p.out.data) + first * (p.out.bf16 ? 2 : 4);
    join_kernel<<<static_cast<unsigned>(p.x.shape[0]), 256, 0, context.stream()>>>(joining);
  }
}

}  // namespace

CodedRows code_rows(Context& context, const View& x, int pieces) {
  const int64_t unit = 4 / pieces, tokens = (x.shape[0] + unit - 1) / unit * unit, columns = x.shape[1];
  const CodedRows out{.codes = context.take<uint8_t>(pieces * tokens * columns),
                      .scales = context.take<float>(pieces * tokens * columns / 128),
                      .tokens = tokens,
                      .pieces = pieces};
  const auto threads = static_cast<unsigned>(std::min<int64_t>(columns / 16, 320));
  code_kernel<<<static_cast<unsigned>(tokens), threads, 0, context.stream()>>>(out, x);
  return out;
}

void multiply_coded(Context& context, const Product& p) {
  const int pieces = p.slots >= kCodedTokens ? 1 : 2;
  if (pieces == 1 && !p.gated) {
    // Whole fours go straight into `out`; the last four again where some are left, the same numbers in part.
    const int64_t whole = p.slots / 4 * 4;
    multiply_codes(context, code_rows(context, rows_from(p.x, 0, whole), 1), p.codes, 0, p.codes.rows, p.out);
    if (whole < p.slots)
      multiply_codes(context, code_rows(context, rows_from(p.x, p.slots - 4, 4), 1), p.codes, 0, p.codes.rows,
                     rows_from(p.out, p.slots - 4, 4));
    return;
  }
  const int64_t outputs = p.outputs(), wide = p.gated ? 2 : 1;
  // All outputs of some rows, or some outputs of few rows, whichever fits.
  const int64_t tokens =
      std::min(p.slots, std::max<int64_t>(kCodedTokens, kMostBytes / (4 * p.codes.rows) / 128 * 128));
  const int64_t most = std::max<int64_t>(128, kMostBytes / (4 * wide * pieces * (tokens + 4)) / 128 * 128);
  const int64_t width = std::min(outputs, most);
  auto* parts = context.take<float>(pieces * (tokens + 4) * wide * width);
  for (int64_t first = 0; first < p.slots; first += tokens) {
    Product part = p;
    const int64_t count = std::min(tokens, p.slots - first);
    part.x = rows_from(p.x, first, count), part.out = rows_from(p.out, first, count);
    multiply_joined(context, part, code_rows(context, part.x, pieces), parts, width);
  }
}

}  // namespace braid::cuda
