// Products of many rows of x with FP8 or int8 weights: x is coded as the weight is, with a scale per row and 128
// columns where the weight has blocks of 128 x 128, else with one per row, and the matrix library multiplies codes. One
// code a number where the checkpoint's own way of multiplying is wanted (W8A8); two where x must stay as near as bf16:
// the second codes what the first left, enlarged, in a row of its own, and both products are added (W8A16, at half the
// rate). Bounded by the tensor cores' rate for codes; coding x reads it once or twice.
// SPDX-License-Identifier: Apache-2.0
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

int64_t rounded_tokens(const View& x, int pieces) {
  const int64_t unit = 4 / pieces;
  return (x.shape[0] + unit - 1) / unit * unit;
}

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

// The same with one scale a row, of E4M3 or int8 codes.
template <bool kInt8>
__global__ void code_rows_kernel(CodedRows out, View x) {
  __shared__ float scratch[32];
  const int64_t row = blockIdx.x, from = min(row, x.shape[0] - 1), columns = x.shape[1];
  constexpr float kLargest = kInt8 ? 127 : 448, kRest = kInt8 ? 1.0f / 254 : kRestScale;
  float largest = 0;
  for (int64_t column = threadIdx.x * int64_t{16}; column < columns; column += blockDim.x * int64_t{16}) {
    float values[16];
    load_16(values, x, from * x.stride[0] + column);
#pragma unroll
    for (int i = 0; i < 16; ++i) largest = fmaxf(largest, fabsf(values[i]));
  }
  const float scale = fmaxf(max_of_block(largest, scratch) / kLargest, 1e-12f), factor = 1 / scale;
  for (int64_t column = threadIdx.x * int64_t{16}; column < columns; column += blockDim.x * int64_t{16}) {
    float values[16];
    load_16(values, x, from * x.stride[0] + column);
    uint32_t words[4];
    kInt8 ? whole_16(words, values, factor) : code_16(words, values, factor);
    *reinterpret_cast<uint4*>(out.codes + row * columns + column) = {words[0], words[1], words[2], words[3]};
    if (out.pieces == 1) continue;
    kInt8 ? whole_rest_16(words, values, factor) : code_rest_16(words, values, factor);
    *reinterpret_cast<uint4*>(out.codes + (out.tokens + row) * columns + column) = {words[0], words[1], words[2],
                                                                                    words[3]};
  }
  if (threadIdx.x != 0) return;
  out.scales[row] = scale;
  if (out.pieces == 2) out.scales[out.tokens + row] = scale * kRest;
}

__global__ void row_scales_kernel(float* out, Codes codes) {
  const int64_t row = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (row < codes.rows) out[row] = codes.scales[row / codes.block_rows * codes.scale_columns];
}

MatrixForm form_of(const Codes& codes) {
  if (codes.coding == Coding::Int8) return MatrixForm::Whole;
  return codes.row_scales ? MatrixForm::Rows : MatrixForm::Blocks;
}

View rows_from(const View& v, int64_t first, int64_t count) {
  View out = v;
  out.data = static_cast<char*>(v.data) + first * v.stride[0] * (v.bf16 ? 2 : 4);
  out.shape[0] = count;
  return out;
}

// Products of all coded rows with rows [first, first + rows) of the weight; w_scales: of its rows, for Rows.
void multiply_codes(Context& context, const CodedRows& x, const Codes& codes, const float* w_scales, int64_t first,
                    int64_t rows, const View& out) {
  const MatrixForm form = form_of(codes);
  context.matrices()->multiply(
      {.form = form,
       .out = out.data,
       .out_bf16 = out.bf16,
       .x = x.codes,
       .w = codes.data + first * codes.columns,
       .tokens = x.pieces * x.tokens,
       .rows = rows,
       .columns = codes.columns,
       .out_stride = out.stride[0],
       .x_stride = codes.columns,
       .x_scales = x.scales,
       .w_scales = form == MatrixForm::Rows ? w_scales + first : codes.scales + first / 128 * codes.scale_columns});
}

struct Joining {
  View out;
  const void* parts;  // [pieces * tokens, width], f32 or whole numbers; gated: gate, then up, each `outputs` wide
  // Of whole numbers: scales of the rows of x, [pieces * tokens], and of the weight's rows that give out and up.
  const float *x_scales, *w_scales, *up_scales;
  int64_t tokens, width, outputs;
  int pieces;
  bool gated, whole;
};

__global__ void join_kernel(Joining a) {
  const int64_t row = blockIdx.x;
  const auto part = [&](int64_t r, int64_t n) {
    const int64_t i = r * a.width + n;
    return a.whole ? a.x_scales[r] * static_cast<float>(static_cast<const int32_t*>(a.parts)[i])
                   : static_cast<const float*>(a.parts)[i];
  };
  const auto at = [&](int64_t n) { return a.pieces == 1 ? part(row, n) : part(row, n) + part(a.tokens + row, n); };
  for (int64_t n = threadIdx.x; n < a.outputs; n += blockDim.x) {
    float value = at(n), up = a.gated ? at(a.outputs + n) : 1.0f;
    if (a.whole) value *= a.w_scales[n], up *= a.gated ? a.up_scales[n] : 1.0f;
    put(a.out, row * a.out.stride[0] + n, a.gated ? silu(value) * up : value);
  }
}

// Some rows of x, through memory for the parts of a gated pair or of two codes.
void multiply_joined(Context& context, const Product& p, const CodedRows& x, const float* w_scales, float* parts,
                     int64_t width) {
  const int64_t outputs = p.outputs();
  for (int64_t first = 0; first < outputs; first += width) {
    const int64_t some = std::min(width, outputs - first), all = p.gated ? 2 * some : some;
    View out{.data = parts, .stride = {all}};
    multiply_codes(context, x, p.codes, w_scales, first, some, out);
    if (p.gated) {
      out.data = parts + some;
      multiply_codes(context, x, p.codes, w_scales, outputs + first, some, out);
    }
    Joining joining{.out = p.out,
                    .parts = parts,
                    .x_scales = x.scales,
                    .w_scales = w_scales + first,
                    .up_scales = w_scales + outputs + first,
                    .tokens = x.tokens,
                    .width = all,
                    .outputs = some,
                    .pieces = x.pieces,
                    .gated = p.gated,
                    .whole = p.codes.coding == Coding::Int8};
    joining.out.data = static_cast<char*>(p.out.data) + first * (p.out.bf16 ? 2 : 4);
    join_kernel<<<static_cast<unsigned>(p.x.shape[0]), 256, 0, context.stream()>>>(joining);
  }
}

}  // namespace

CodedRows code_rows(Context& context, const View& x, int pieces) {
  const int64_t tokens = rounded_tokens(x, pieces), columns = x.shape[1];
  const CodedRows out{.codes = context.take<uint8_t>(pieces * tokens * columns),
                      .scales = context.take<float>(pieces * tokens * columns / 128),
                      .tokens = tokens,
                      .pieces = pieces};
  const auto threads = static_cast<unsigned>(std::min<int64_t>(columns / 16, 320));
  code_kernel<<<static_cast<unsigned>(tokens), threads, 0, context.stream()>>>(out, x);
  return out;
}

namespace {

CodedRows code_rows_of(Context& context, const View& x, const Codes& codes, int pieces) {
  if (!codes.row_scales) return code_rows(context, x, pieces);
  const int64_t tokens = rounded_tokens(x, pieces), columns = x.shape[1];
  const CodedRows out{.codes = context.take<uint8_t>(pieces * tokens * columns),
                      .scales = context.take<float>(pieces * tokens),
                      .tokens = tokens,
                      .pieces = pieces};
  auto* kernel = codes.coding == Coding::Int8 ? code_rows_kernel<true> : code_rows_kernel<false>;
  kernel<<<static_cast<unsigned>(tokens), 256, 0, context.stream()>>>(out, x);
  return out;
}

// One scale for each row of the weight, behind each other.
const float* row_scales(Context& context, const Codes& codes) {
  if (!codes.row_scales) return codes.scales;
  if (codes.scale_columns == 1 && codes.block_rows == 1) return codes.scales;
  auto* out = context.take<float>(codes.rows);
  row_scales_kernel<<<static_cast<unsigned>((codes.rows + 255) / 256), 256, 0, context.stream()>>>(out, codes);
  return out;
}

}  // namespace

void multiply_coded(Context& context, const Product& p) {
  const int pieces = p.slots >= kCodedTokens ? 1 : 2;
  const float* w_scales = row_scales(context, p.codes);
  if (pieces == 1 && !p.gated && p.codes.coding != Coding::Int8) {
    // Whole fours go straight into `out`; the last four again where some are left, the same numbers in part.
    const int64_t whole = p.slots / 4 * 4;
    const auto multiply = [&](int64_t row, int64_t count) {
      multiply_codes(context, code_rows_of(context, rows_from(p.x, row, count), p.codes, 1), p.codes, w_scales, 0,
                     p.codes.rows, rows_from(p.out, row, count));
    };
    multiply(0, whole);
    if (whole < p.slots) multiply(p.slots - 4, 4);
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
    multiply_joined(context, part, code_rows_of(context, part.x, p.codes, pieces), w_scales, parts, width);
  }
}

}  // namespace braid::cuda
