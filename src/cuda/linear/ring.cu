// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/ring.h"

#include <algorithm>
#include <bit>

#include "cuda/linear/ring_kernel.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMostRows = 16;

template <RingForm kForm>
void launch_rows(Context& context, Ring& stream) {
  if (stream.tokens <= 8)
    launch_ring<kForm, 1>(context, stream);
  else
    launch_ring<kForm, 2>(context, stream);
}

void launch_form(Context& context, Ring& stream, Coding coding) {
  switch (coding) {
    case Coding::Fp8:
      return launch_rows<RingForm::Fp8>(context, stream);
    case Coding::Int8:
      return launch_rows<RingForm::Int8>(context, stream);
    case Coding::Nvfp4:
      return launch_rows<RingForm::Nvfp4>(context, stream);
    default:
      CHECK(false, "no stream of this coding");
  }
}

// Bytes that a block holds for one row of x.
int64_t row_bytes(const Codes& codes) {
  const int64_t chunks = codes.columns / ring_chunk_columns(codes.coding);
  return codes.columns * 2 + 64 + 4 * chunks;
}

View rows_from(const View& v, int64_t first, int64_t count) {
  View out = v;
  out.data = static_cast<char*>(v.data) + first * v.stride[0] * (v.bf16 ? 2 : 4);
  out.shape[0] = count;
  return out;
}

RingSource ring_source(const Codes& codes, bool paired) {
  const auto map_of = [&](MapOf of) {
    const std::optional<CUtensorMap> map = stream_map(codes, of, paired);
    CHECK(map, "the driver makes no map of weights");
    return *map;
  };
  return {.map = map_of(MapOf::Codes),
          .groups = codes.coding == Coding::Nvfp4 ? map_of(MapOf::Groups) : CUtensorMap{},
          .scales = codes.scales,
          .scale_columns = codes.scale_columns,
          .block_shift = std::countr_zero(static_cast<uint32_t>(codes.block_rows)),
          .rows = static_cast<int32_t>(codes.rows)};
}

}  // namespace

int32_t ring_chunk_columns(Coding coding) { return coding == Coding::Nvfp4 ? 256 : 128; }

bool has_ring(const Context& context, const Codes& codes) {
  if (!context.hopper() || codes.rows == 0 || reinterpret_cast<uintptr_t>(codes.data) % 16 != 0) return false;
  const bool form = codes.coding == Coding::Fp8 || codes.coding == Coding::Int8 || codes.coding == Coding::Nvfp4;
  return form && codes.row_scales && std::has_single_bit(static_cast<uint32_t>(codes.block_rows)) &&
         codes.columns % ring_chunk_columns(codes.coding) == 0;
}

int64_t ring_rows(const Codes& codes) {
  constexpr int64_t kMemory = int64_t{224} << 10, kRing = 4 * kRingWarps * (kChunkBytes + 512);
  constexpr int64_t kParts = kPartBuffers * kMostCluster * kRingWarps * 512;  // of 8 rows
  const int64_t left = kMemory - 1024 - kRing, each = row_bytes(codes);
  const int64_t rows = (left - kParts) / each;
  return rows <= 8 ? rows : std::clamp<int64_t>((left - 2 * kParts) / each, 8, kMostRows);
}

RingGrid ring_grid(int tiles, int multiprocessors) { return {1, std::clamp(tiles, 1, multiprocessors)}; }

void multiply_decoded(Context& context, std::span<const Product> products) {
  const Product& first = products.front();
  Ring s{.source_count = static_cast<int32_t>(products.size()),
         .chunks = static_cast<int32_t>(first.codes.columns / ring_chunk_columns(first.codes.coding)),
         .gated = first.gated};
  for (size_t i = 0; i < products.size(); ++i) {
    s.sources[i] = ring_source(products[i].codes, first.gated);
    s.sources[i].first_tile = s.tiles;
    const int64_t tile = first.gated ? kTileRows / 2 : kTileRows;
    s.tiles += static_cast<int32_t>((products[i].outputs() + tile - 1) / tile);
  }
  const int64_t most = ring_rows(first.codes);
  for (int64_t row = 0; row < first.slots; row += most) {
    const int64_t count = std::min(most, first.slots - row);
    s.tokens = static_cast<int32_t>(count), s.x = rows_from(first.x, row, count);
    for (size_t i = 0; i < products.size(); ++i) s.sources[i].out = rows_from(products[i].out, row, count);
    launch_form(context, s, first.codes.coding);
  }
}

}  // namespace braid::cuda
