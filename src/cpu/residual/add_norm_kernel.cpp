// Adding to the residual stream and normalising it: two sweeps over a row, the second of which finds it in the L1
// cache. Work items are a few rows. Bound by memory traffic.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"
#include "cpu/memory/pieces.h"

namespace braid::cpu::BRAID_ISA {
namespace {

constexpr int64_t kPiece = 4096;

// stream += add; returns the sum of squares of what the stream then holds.
template <typename Stream, typename Added>
float add_row(Stream* stream, const Added* add, int64_t width) {
  Vec even = zero(), odd = zero();
  for (int64_t i = 0; i < width; i += kLanes) {
    Vec x = load_as(stream + i, width - i);
    if (add != nullptr) {
      x = x + load_as(add + i, width - i);
      store_as(stream + i, x, width - i);
      if (sizeof(Stream) < sizeof(float)) x = load_as(stream + i, width - i);
    }
    const Vec next = fma(x, x, odd);
    odd = even, even = next;
  }
  return sum(even + odd);
}

template <typename Stream, typename Out>
void scale_row(const Stream* stream, Out* out, const float* weight, float scale, int64_t width) {
  const Vec factor = splat(scale);
  for (int64_t i = 0; i < width; i += kLanes) {
    Vec x = factor * load_as(stream + i, width - i);
    if (weight != nullptr) x = x * load_as(weight + i, width - i);
    store_as(out + i, x, width - i);
  }
}

template <typename Stream, typename Added, typename Out>
void add_norm_row(const AddNorm& op, int64_t row) {
  const int64_t width = op.stream.width();
  Stream* stream = op.stream.row<Stream>(row);
  const float squares = add_row(stream, op.add ? op.add.row<Added>(row) : nullptr, width);
  if (!op.out) return;
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(width) + op.epsilon);
  scale_row(stream, op.out.row<Out>(row), op.weight.as<float>(), scale, width);
}

template <typename Stream, typename Added>
auto row_function(DType out) {
  return out == DType::BF16 ? add_norm_row<Stream, Added, uint16_t> : add_norm_row<Stream, Added, float>;
}

template <typename Stream>
auto row_function(DType add, DType out) {
  return add == DType::BF16 ? row_function<Stream, uint16_t>(out) : row_function<Stream, float>(out);
}

}  // namespace

void add_norm(const AddNorm& op, const Share& share) {
  const auto run_row = op.stream.dtype == DType::BF16 ? row_function<uint16_t>(op.add.dtype, op.out.dtype)
                                                      : row_function<float>(op.add.dtype, op.out.dtype);
  for_rows(share, op.stream.rows(), op.stream.width(), kPiece, [&](int64_t row) { run_row(op, row); });
}

}  // namespace braid::cpu::BRAID_ISA
