// Embed: gathers and decodes rows of the table, one row per work item. Bound by the bytes of the rows.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/packing.h"
#include "cpu/simd/vec.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// kLanes values of a row at column k, or the first n of them.
template <Coding coding>
BRAID_INLINE Vec decoded(const uint8_t* codes, int64_t k, int64_t n) {
  if constexpr (coding == Coding::F32) return load_part(reinterpret_cast<const float*>(codes) + k, n);
  if constexpr (coding == Coding::BF16) return load_bf16_part(reinterpret_cast<const uint16_t*>(codes) + k, n);
  if constexpr (coding == Coding::F16) return load_f16_part(reinterpret_cast<const uint16_t*>(codes) + k, n);
  if constexpr (coding == Coding::Fp8) return load_e4m3_part(codes + k, n);
}

template <Coding coding>
void row_into(const Packed& table, int64_t row, float scale, void* out, bool wide) {
  const Packed::Segment& segment = table.find(row);
  const uint8_t* codes = segment.codes + (row - segment.first) * table.row_bytes;
  for (int64_t k = 0; k < table.columns; k += kLanes) {
    const int64_t n = table.columns - k;
    Vec v = decoded<coding>(codes, k, n);
    if (table.scale_columns > 0) {
      alignas(64) float factor[kLanes];
      const float* scales = segment.scales + (row - segment.first) / table.block_rows * table.scale_columns;
      for (int64_t i = 0; i < kLanes; ++i) factor[i] = scales[(k + (i < n ? i : 0)) / table.block_columns];
      v = v * load(factor);
    }
    v = v * splat(scale);
    wide ? store_part(static_cast<float*>(out) + k, v, n) : store_bf16_part(static_cast<uint16_t*>(out) + k, v, n);
  }
}

}  // namespace

void embed(const Embed& op, const Share& share) {
  const Packed& table = packed(*op.table);
  const int64_t tokens = op.ids.elements();
  for (int64_t t = share.take(tokens); t >= 0; t = share.take(tokens)) {
    const int64_t id = op.ids.as<const int32_t>()[t];
    const bool wide = op.out.dtype == DType::F32;
    void* out = wide ? static_cast<void*>(op.out.row<float>(t)) : static_cast<void*>(op.out.row<uint16_t>(t));
    switch (table.coding) {
      case Coding::F32:
        row_into<Coding::F32>(table, id, op.scale, out, wide);
        break;
      case Coding::BF16:
        row_into<Coding::BF16>(table, id, op.scale, out, wide);
        break;
      case Coding::F16:
        row_into<Coding::F16>(table, id, op.scale, out, wide);
        break;
      case Coding::Fp8:
        row_into<Coding::Fp8>(table, id, op.scale, out, wide);
        break;
    }
  }
}

}  // namespace braid::cpu::BRAID_ISA
