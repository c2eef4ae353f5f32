// Copy, gather and fill: work items are pieces of about kPiece elements. Bound by memory traffic.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"
#include "cpu/memory/pieces.h"

namespace braid::cpu::BRAID_ISA {
namespace {

constexpr int64_t kPiece = 8192;

template <typename From, typename To>
void convert(const From* from, To* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_as(to + i, load_as(from + i));
  if (i < count) store_as(to + i, load_as(from + i, count - i), count - i);
}

// Where `count` elements come from and go to, as offsets into the tensors' memory.
struct Piece {
  int64_t from = 0, to = 0, count = 0;
};

void copy_piece(const Tensor& out, const Tensor& x, const Piece& piece) {
  if (out.dtype == x.dtype) {
    const int64_t size = size_of(x.dtype);
    __builtin_memcpy(out.data + piece.to * size, x.data + piece.from * size, static_cast<size_t>(piece.count * size));
  } else if (x.dtype == DType::BF16) {
    convert(x.as<uint16_t>() + piece.from, out.as<float>() + piece.to, piece.count);
  } else {
    convert(x.as<float>() + piece.from, out.as<uint16_t>() + piece.to, piece.count);
  }
}

// The offset of row `row`, counted over all dimensions but the last.
int64_t row_offset(const Tensor& tensor, int64_t row) {
  int64_t offset = 0;
  for (int dim = tensor.rank - 2; dim >= 0; --dim) {
    offset += row % tensor.size(dim) * tensor.stride(dim);
    row /= tensor.size(dim);
  }
  return offset;
}

bool packed(const Tensor& tensor) {
  int64_t expected = 1;
  for (int dim = tensor.rank - 1; dim >= 0; --dim) {
    if (tensor.size(dim) != 1 && tensor.stride(dim) != expected) return false;
    expected *= tensor.size(dim);
  }
  return true;
}

int64_t count_of(const Tensor& tensor) {
  int64_t count = tensor.rank == 0 ? 0 : 1;
  for (int dim = 0; dim < tensor.rank; ++dim) count *= tensor.size(dim);
  return count;
}

int64_t pieces_of(int64_t count, int64_t piece) { return (count + piece - 1) / piece; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace

void copy(const Copy& op, const Share& share) {
  const int64_t elements = count_of(op.x);
  if (elements == 0) return;
  if (packed(op.x) && packed(op.out)) {
    const int64_t pieces = pieces_of(elements, kPiece);
    for (int64_t piece = share.take(pieces); piece >= 0; piece = share.take(pieces)) {
      const int64_t first = piece * kPiece;
      copy_piece(op.out, op.x, {first, first, smaller(kPiece, elements - first)});
    }
    return;
  }
  const int64_t width = op.x.width();
  for_rows(share, elements / width, width, kPiece, [&](int64_t row) {
    copy_piece(op.out, op.x, {row_offset(op.x, row), row_offset(op.out, row), width});
  });
}

void gather(const Gather& op, const Share& share) {
  const int64_t width = op.x.width();
  for_rows(share, op.out.rows(), width, kPiece, [&](int64_t row) {
    copy_piece(op.out, op.x, {op.index.as<int32_t>()[row] * op.x.stride(0), row * op.out.stride(0), width});
  });
}

void fill(const Fill& op, const Share& share) {
  constexpr int64_t kBytes = 1 << 16;
  const int64_t bytes = count_of(op.out) * size_of(op.out.dtype), pieces = pieces_of(bytes, kBytes);
  for (int64_t piece = share.take(pieces); piece >= 0; piece = share.take(pieces)) {
    const int64_t first = piece * kBytes;
    __builtin_memset(op.out.data + first, op.byte, static_cast<size_t>(smaller(kBytes, bytes - first)));
  }
}

}  // namespace braid::cpu::BRAID_ISA
