// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/ring.h"

#include <algorithm>
#include <bit>

#include "cuda/linear/ring_kernel.h"
#include "cuda/linear/select.h"

namespace braid::cuda {
namespace {

constexpr int32_t kMostRows = 16;
constexpr int64_t kMemory = int64_t{224} << 10;  // of a multiprocessor, shared

}  // namespace

RingForm ring_form(const Codes& codes) {
  switch (codes.coding) {
    case Coding::BF16:
      return RingForm::Bf16;
    case Coding::Fp8:
      return codes.row_scales ? RingForm::Fp8 : RingForm::Fp8Blocks;
    case Coding::Int8:
      return RingForm::Int8;
    default:
      CHECK(codes.coding == Coding::Nvfp4, "no ring of this coding");
      return RingForm::Nvfp4;
  }
}

int64_t ring_columns(RingForm form) { return form == RingForm::Bf16 ? 64 : form == RingForm::Nvfp4 ? 256 : 128; }

int32_t ring_tiles(const Codes& codes, bool gated) {
  const int64_t tile = gated ? kTileRows / 2 : kTileRows, outputs = gated ? codes.rows / 2 : codes.rows;
  return static_cast<int32_t>((outputs + tile - 1) / tile);
}

RingSource ring_source(const Codes& codes) {
  const int64_t pitch = codes.columns / ring_columns(ring_form(codes)) * 128;
  return {.codes = codes.data,
          .groups = codes.groups,
          .pitch = pitch,
          .scales = codes.scales,
          .scale_columns = codes.scale_columns,
          .block_shift = std::countr_zero(static_cast<uint32_t>(codes.block_rows)),
          .rows = static_cast<int32_t>(codes.rows),
          .matrix_bytes = codes.rows * pitch,
          .matrix_scales = int64_t{codes.scale_rows} * codes.scale_columns};
}

std::optional<Extents> ring_extents(Ring& s, RingForm form, int multiprocessors) {
  constexpr int64_t kFewest = 2, kMost = kMostRing;  // chunks of a warp in shared memory
  const RingGrid grid = ring_grid(s.tiles, s.chunks, s.tokens, multiprocessors);
  const int tiles = (s.tiles + grid.clusters - 1) / grid.clusters, sets = s.tokens <= 8 ? 1 : 2;
  s.most_chunks = (s.chunks + grid.ranks - 1) / grid.ranks;
  const int warps = ring_warps(form, s.tokens);
  s.parts = (tiles + grid.ranks - 1) / grid.ranks + warps;
  const int64_t chunk = kChunkBytes + (form == RingForm::Nvfp4 ? kTileRows * 16 : 0);
  const int64_t row = s.most_chunks * (2 * ring_columns(form) + 4) + 64;
  const int64_t held = 1024 + grid.ranks * s.parts * (sets * 512 + 4) + s.tokens * row, each = warps * chunk;
  const int64_t needed = (int64_t{tiles} * s.most_chunks + warps - 1) / warps;
  s.ring = static_cast<int32_t>(
      std::clamp<int64_t>((kMemory - held) / each, std::min(needed, kFewest), std::min(needed, kMost)));
  // Many rows of x would wait behind all weights that were asked for.
  s.early = sets == 1 ? s.ring : std::min<int32_t>(s.ring, kFewest);
  if (held + s.ring * each > kMemory) return std::nullopt;
  return Extents{.grid = static_cast<unsigned>(grid.clusters * grid.ranks),
                 .block = static_cast<unsigned>(warps) * 32,
                 .shared = static_cast<size_t>(held + s.ring * each),
                 .cluster = static_cast<unsigned>(grid.ranks)};
}

namespace {

template <RingForm kForm>
void launch_form(Context& context, Ring& s, const Extents& extents) {
  constexpr int kFew = ring_warps(kForm, 1), kMany = ring_warps(kForm, kMostRows);
  auto* kernel = s.tokens > 8                           ? ring_kernel<kForm, 2, kMany, RingInput::Rows>
                 : ring_warps(kForm, s.tokens) == kMany ? ring_kernel<kForm, 1, kMany, RingInput::Rows>
                                                        : ring_kernel<kForm, 1, kFew, RingInput::Rows>;
  start_ring(context, kernel, s, extents);
}

void launch_ring(Context& context, Ring& s, const Codes& codes) {
  const Extents extents = ring_extents(s, ring_form(codes), context.multiprocessors()).value();
  switch (ring_form(codes)) {
    case RingForm::Bf16:
      return launch_form<RingForm::Bf16>(context, s, extents);
    case RingForm::Fp8:
      return launch_form<RingForm::Fp8>(context, s, extents);
    case RingForm::Fp8Blocks:
      return launch_form<RingForm::Fp8Blocks>(context, s, extents);
    case RingForm::Int8:
      return launch_form<RingForm::Int8>(context, s, extents);
    case RingForm::Nvfp4:
      return launch_form<RingForm::Nvfp4>(context, s, extents);
  }
}

View rows_from(const View& v, int64_t first, int64_t count) {
  View out = v;
  out.data = static_cast<char*>(v.data) + first * v.stride[0] * (v.bf16 ? 2 : 4);
  out.shape[0] = count;
  return out;
}

}  // namespace

bool has_ring(const Context& context, const Codes& codes) {
  if (!context.hopper() || codes.rows == 0 || reinterpret_cast<uintptr_t>(codes.data) % 16 != 0) return false;
  if (codes.coding == Coding::F32 || codes.coding == Coding::F16) return false;
  // Narrow ones are read in no time by kernels that do not round x.
  if (codes.columns % 128 != 0) return false;
  const int64_t columns = ring_columns(ring_form(codes));
  const bool by_chunk = codes.coding == Coding::Fp8 && codes.block_columns == columns;
  const bool scaled = (codes.row_scales || by_chunk) && std::has_single_bit(static_cast<uint32_t>(codes.block_rows));
  return (codes.coding == Coding::BF16 || scaled) && codes.columns % columns == 0;
}

namespace {

int32_t rows_that_fit(Ring s, RingForm form, int multiprocessors) {
  for (s.tokens = kMostRows; s.tokens > 0; --s.tokens)
    if (ring_extents(s, form, multiprocessors)) break;
  return s.tokens;
}

}  // namespace

int64_t ring_rows(const Context& context, const Codes& codes, bool gated) {
  const Ring s{.tiles = ring_tiles(codes, gated),
               .chunks = static_cast<int32_t>(codes.columns / ring_columns(ring_form(codes)))};
  return rows_that_fit(s, ring_form(codes), context.multiprocessors());
}

namespace {

// Products that share x, but for x.
Ring ring_of(std::span<const Product> products) {
  const Product& first = products.front();
  Ring s{.source_count = static_cast<int32_t>(products.size()),
         .chunks = static_cast<int32_t>(first.codes.columns / ring_columns(ring_form(first.codes))),
         .gated = first.gated,
         .stream = first.stream};
  for (size_t i = 0; i < products.size(); ++i) {
    s.sources[i] = ring_source(products[i].codes);
    s.sources[i].first_tile = s.tiles;
    s.tiles += ring_tiles(products[i].codes, first.gated);
  }
  return s;
}

}  // namespace

void multiply_ringed(Context& context, std::span<const Product> products) {
  const Product& first = products.front();
  Ring s = ring_of(products);
  const int32_t most = rows_that_fit(s, ring_form(first.codes), context.multiprocessors());
  if (most == 0) {  // sums of so many tiles do not
    for (size_t i = 0; i < products.size(); ++i) multiply_ringed(context, products.subspan(i, 1));
    return;
  }
  for (int64_t row = 0; row < first.slots; row += most) {
    const int64_t count = std::min<int64_t>(most, first.slots - row);
    s.tokens = static_cast<int32_t>(count), s.x = rows_from(first.x, row, count);
    for (size_t i = 0; i < products.size(); ++i) s.sources[i].out = rows_from(products[i].out, row, count);
    launch_ring(context, s, first.codes);
  }
}

bool multiply_ringed(Context& context, std::span<const Product> products, const NormedRow& row) {
  Ring s = ring_of(products);
  const RingForm form = ring_form(products.front().codes);
  s.tokens = 1, s.norm = row;
  const std::optional<Extents> extents = ring_extents(s, form, context.multiprocessors());
  const auto fits = [&] {
    return row.width <= static_cast<int>(extents->block.x) * kNormedEach * kNormedSteps &&
           row.outputs <= extents->grid.x;
  };
  if (!extents || !fits()) return false;
  for (size_t i = 0; i < products.size(); ++i) s.sources[i].out = products[i].out;
  launch_normed_ring(context, s, form, *extents);
  return true;
}

}  // namespace braid::cuda
