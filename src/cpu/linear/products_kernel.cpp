// The products of linear/products.h: thin ones straight from the codes, wide ones through an unpacked panel.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear/products.h"

#include "cpu/linear/wide.h"

namespace braid::cpu::BRAID_ISA {
namespace {

template <Coding coding, Operand operand>
struct Products {
  template <int together>
  static void thin(const Product& p, const Panel& panel, float* out) {
    using Kernel = void (*)(const Packed&, const Panel&, const uint8_t* const*, Vec*);
    static constexpr Kernel kKernels[kThinRows] = {
        thin_product<coding, operand, 1, together>, thin_product<coding, operand, 2, together>,
        thin_product<coding, operand, 3, together>, thin_product<coding, operand, 4, together>};
    Vec sums[kThinRows] = {};
    kKernels[p.tokens - 1](*p.weight, panel, p.x, sums);
    for (int64_t m = 0; m < p.tokens; ++m) store(out + m * p.stride, sums[m]);
  }

  static void wide(const Product& p, const Panel& panel, float* out) {
    Unpacked unpacked;
    bool begins = true;
    for (Chunk chunk(*p.weight); begins || chunk.length > 0; begins = false) {
      unpack_block<coding, operand>(*p.weight, panel, chunk, unpacked);
      int64_t t = 0;
      for (; t + kTileRows <= p.tokens; t += kTileRows)
        tile_product<operand, kTileRows>(unpacked, p.x + t, begins, out + t * p.stride, p.stride);
      rest<kTileRows - 1>(p, unpacked, begins, t, out);
    }
  }

  template <int rows>
  static void rest(const Product& p, const Unpacked& unpacked, bool begins, int64_t t, float* out) {
    if constexpr (rows > 0) {
      if (p.tokens - t == rows)
        return tile_product<operand, rows>(unpacked, p.x + t, begins, out + t * p.stride, p.stride);
      rest<rows - 1>(p, unpacked, begins, t, out);
    }
  }

  // Whether all groups go through a line together: where the cache and the registers hold that much.
  static bool all_together(const Product& p) {
    const bool registers = kRegisters == 32 || (p.tokens == 1 && coding != Coding::Fp8);
    return registers && !crowded(*p.weight);
  }

  // Unpacking a panel costs less than decoding it twice, so all that is not thin is wide.
  static void all(const Product& p) {
    if (p.tokens == 0) return;
    for (int64_t n = 0; n < p.rows; n += kLanes) {
      const Panel panel = make_panel(*p.weight, p.row + n, p.rows - n < kLanes ? p.rows - n : kLanes);
      if (p.tokens > kThinRows) {
        wide(p, panel, p.out + n);
      } else {
        all_together(p) ? thin<4>(p, panel, p.out + n) : thin<2>(p, panel, p.out + n);
      }
    }
  }
};

template <Operand operand>
void convert(const void* values, bool floats, int64_t columns, uint8_t* out) {
  const auto* f32 = static_cast<const float*>(values);
  const auto* bf16 = static_cast<const uint16_t*>(values);
  int64_t k = 0;
  for (; k < columns; k += 2 * kLanes) {
    const int64_t left = columns - k, more = left > kLanes ? left - kLanes : 0;
    const Vec low = floats ? load_part(f32 + k, left) : load_bf16_part(bf16 + k, left);
    const Vec high = floats ? load_part(f32 + k + kLanes, more) : load_bf16_part(bf16 + k + kLanes, more);
    store_operands<operand>(out + k * bytes_of(operand), low, high);
  }
  for (k *= bytes_of(operand); k < prepared_stride(operand, columns); ++k) out[k] = 0;
}

void convert(Operand operand, const void* values, bool floats, int64_t columns, uint8_t* out) {
  if constexpr (kHasPairs)
    if (operand == Operand::Pair) return convert<Operand::Pair>(values, floats, columns, out);
  convert<Operand::Float>(values, floats, columns, out);
}

}  // namespace

void prepare_row(Operand operand, const Tensor& x, int64_t row, uint8_t* out) {
  const bool floats = x.dtype == DType::F32;
  const void* values = floats ? static_cast<const void*>(x.row<const float>(row)) : x.row<const uint16_t>(row);
  convert(operand, values, floats, x.width(), out);
}

void prepare_row(Operand operand, const float* values, int64_t columns, uint8_t* out) {
  convert(operand, values, true, columns, out);
}

void product(const Product& p) {
  if constexpr (kHasPairs) {
    if (p.operand == Operand::Pair) {
      if (p.weight->coding == Coding::BF16) return Products<Coding::BF16, Operand::Pair>::all(p);
      return Products<Coding::Fp8, Operand::Pair>::all(p);
    }
  }
  switch (p.weight->coding) {
    case Coding::F32:
      return Products<Coding::F32, Operand::Float>::all(p);
    case Coding::BF16:
      return Products<Coding::BF16, Operand::Float>::all(p);
    case Coding::F16:
      return Products<Coding::F16, Operand::Float>::all(p);
    case Coding::Fp8:
      return Products<Coding::Fp8, Operand::Float>::all(p);
  }
}

}  // namespace braid::cpu::BRAID_ISA
