// What ops with products share: the rows of x in the forms that weights want, and how the work is cut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/linear/products.h"
#include "cpu/memory/elements.h"

namespace braid::cpu::BRAID_ISA {

// Hands out pieces of a workspace, aligned to 64; over a null start it only measures.
class Carver {
 public:
  [[gnu::always_inline]] explicit Carver(std::byte* start) : start_(reinterpret_cast<intptr_t>(start)) {}
  template <typename T>
  [[gnu::always_inline]] T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(start_ + used_);
    used_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return piece;
  }
  [[gnu::always_inline]] size_t used() const { return static_cast<size_t>(used_); }

 private:
  intptr_t start_;
  int64_t used_ = 0;
};

// All rows of x as operands, in each form that is wanted.
struct Forms {
  static constexpr int kKinds = kHasPairs ? 2 : 1;
  // Up to this many values every member prepares all rows for itself: less work than a barrier.
  static constexpr int64_t kAlone = 16 << 10;

  bool wanted[kKinds] = {};
  uint8_t* rows[kKinds] = {};
  int64_t strides[kKinds] = {};

  [[gnu::always_inline]] void want(Operand operand) { wanted[static_cast<int>(operand)] = true; }
  [[gnu::always_inline]] const uint8_t* row(Operand operand, int64_t t) const {
    return rows[static_cast<int>(operand)] + t * strides[static_cast<int>(operand)];
  }
  [[gnu::always_inline]] static bool alone(const Tensor& x) { return x.rows() * x.width() <= kAlone; }
  // Memory for the rows: this member's own if alone(x), else shared.
  [[gnu::always_inline]] void carve(Carver& carver, const Tensor& x) {
    for (int kind = 0; kind < kKinds; ++kind) {
      if (!wanted[kind]) continue;
      strides[kind] = prepared_stride(static_cast<Operand>(kind), x.width());
      rows[kind] = carver.take<uint8_t>(x.rows() * strides[kind]);
    }
  }
  // Fills them; when it returns all rows are there.
  void prepare(const Share& share, const Tensor& x) const {
    constexpr int64_t kRows = 16;  // of a work item
    const int64_t tokens = x.rows(), items = (tokens + kRows - 1) / kRows;
    if (alone(x)) return prepare_rows(x, 0, tokens);
    for (int64_t item = share.take(items); item >= 0; item = share.take(items))
      prepare_rows(x, item * kRows, (item + 1) * kRows < tokens ? (item + 1) * kRows : tokens);
    share.barrier();
  }

 private:
  void prepare_rows(const Tensor& x, int64_t from, int64_t to) const {
    for (int kind = 0; kind < kKinds; ++kind)
      for (int64_t t = from; wanted[kind] && t < to; ++t)
        prepare_row(static_cast<Operand>(kind), x, t, rows[kind] + t * strides[kind]);
  }
};

// The most tokens of a work item: unpacking a panel is then a few percent of its products.
constexpr int64_t kBlockTokens = 384;

// Cuts `tokens` into blocks of equal size, none above kBlockTokens.
struct TokenBlocks {
  int64_t count, tokens;
  [[gnu::always_inline]] explicit TokenBlocks(int64_t all)
      : count(all <= 0 ? 0 : (all + kBlockTokens - 1) / kBlockTokens),
        tokens(count == 0 ? 0 : round_up((all + count - 1) / count, kTileRows)) {}
};

// From how many tokens on products are long enough for the team to take blocks one by one.
constexpr int64_t kManyTokens = 16;

// Panels of a block of outputs: large enough that a block costs little to begin, small enough that members end at about
// the same time, and few enough for its sums to stay in the second-level cache.
BRAID_INLINE int64_t panels_of_block(int64_t panels, int64_t tokens, int members) {
  const int64_t most = 64 / kLanes, even = panels / ((tokens > kManyTokens ? 4 : 12) * members);
  return even < 1 ? 1 : even > most ? most : even;
}

// Hands out blocks [0, blocks) in ranges. For few tokens each member takes most of its share at once, as taking is not
// cheap beside products of a microsecond, and single blocks even out the rest.
class Ranges {
 public:
  [[gnu::always_inline]] Ranges(int64_t blocks, int64_t tokens, int members)
      : members_(members),
        long_(tokens > kManyTokens ? 0
              : members == 1       ? blocks
                                   : blocks * 7 / (8 * members)),
        items_(blocks - long_ * members + (long_ > 0 ? members : 0)) {}
  // Whether there is another range.
  [[gnu::always_inline]] bool next(const Share& share) {
    const int64_t item = share.take(items_);
    if (item < 0) return false;
    const bool first = long_ > 0 && item < members_;
    from = first ? item * long_ : item + (long_ > 0 ? members_ * (long_ - 1) : 0);
    to = from + (first ? long_ : 1);
    return true;
  }
  int64_t from = 0, to = 0;

 private:
  int64_t members_, long_, items_;
};

// out[t, n] = silu(gate) * up for tokens by `rows` rows of both, gate first; out is [tokens, stride] as in Product, and
// `scratch` as large. Columns beyond `rows` become zero.
BRAID_INLINE void gated_product(const Product& gate, int64_t up_row, float* scratch) {
  product(gate);
  Product up = gate;
  up.row = up_row;
  up.out = scratch;
  product(up);
  for (int64_t t = 0; t < gate.tokens; ++t) {
    for (int64_t n = 0; n < gate.rows; n += kLanes) {
      float* at = gate.out + t * gate.stride + n;
      const Vec value = silu(load(at)) * load(scratch + t * gate.stride + n);
      store(at, value);
      if (gate.rows - n < kLanes) store(at, load_part(at, gate.rows - n));
    }
  }
}

// Where a block of sums goes: tokens [token, token + tokens) by outputs [output, output + outputs).
struct Block {
  int64_t token, tokens, output, outputs;
};
template <typename Element>
void write_block(const Tensor& out, const Block& block, const float* sums, int64_t stride) {
  for (int64_t t = 0; t < block.tokens; ++t) {
    Element* row = out.row<Element>(block.token + t) + block.output;
    for (int64_t n = 0; n < block.outputs; n += kLanes)
      store_as(row + n, load(sums + t * stride + n), block.outputs - n);
  }
}
BRAID_INLINE void write_block(const Tensor& out, const Block& block, const float* sums, int64_t stride) {
  out.dtype == DType::F32 ? write_block<float>(out, block, sums, stride)
                          : write_block<uint16_t>(out, block, sums, stride);
}

}  // namespace braid::cpu::BRAID_ISA
