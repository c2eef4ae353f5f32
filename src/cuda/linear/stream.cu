// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/stream.h"

#include <algorithm>

#include "cuda/linear/stream_kernel.h"

namespace braid::cuda {
namespace {

constexpr int64_t kMemory = int64_t{216} << 10;  // dynamic shared memory of a block at most
constexpr int64_t kFewestStages = 4;  // of the ring, and of a block: fewer cost more in joining than they win

int pieces_of(const Codes& codes) { return codes.coding == Coding::Fp8 ? 2 : 1; }
int64_t stage_columns(const Codes& codes) { return codes.coding == Coding::Fp8 ? 128 : 64; }
int columns_of(const Codes& codes, int64_t tokens) {
  const int64_t columns = tokens * pieces_of(codes);
  return columns <= 8 ? 8 : columns <= 16 ? 16 : 32;
}
// Bytes of the rows of x that a block holds for Rows.
int64_t row_bytes(const Codes& codes, int64_t tokens) {
  // The tensor cores read all columns of their form, 8 of them behind each other; only the first 8 may be fewer.
  const int64_t columns = tokens * pieces_of(codes), width = columns <= 8 ? columns : columns_of(codes, tokens);
  return width * 128 * (codes.columns / stage_columns(codes));
}

template <bool kFp8>
void run(Context& context, Stream& stream, int columns) {
  auto* kernel = columns == 8    ? stream_kernel<kFp8, 8, StreamMode::Rows>
                 : columns == 16 ? stream_kernel<kFp8, 16, StreamMode::Rows>
                                 : stream_kernel<kFp8, 32, StreamMode::Rows>;
  launch_stream(context, kernel, stream, columns);
}

}  // namespace

bool streams(const Context& context, const Codes& codes, bool gated) {
  if (!context.hopper() || codes.rows == 0) return false;
  const bool fp8 = codes.coding == Coding::Fp8 && codes.block_columns == 128 && codes.block_rows % 64 == 0;
  return (fp8 || codes.coding == Coding::BF16) && codes.columns % 128 == 0 && (!gated || codes.rows % 128 == 0) &&
         reinterpret_cast<uintptr_t>(codes.data) % 16 == 0;
}

bool stream_holds(const Codes& codes, int64_t tokens) {
  const int64_t columns = columns_of(codes, tokens);
  const int64_t scales = 4 * columns * (codes.columns / stage_columns(codes));
  return tokens * pieces_of(codes) <= 32 &&
         row_bytes(codes, tokens) + scales + kFewestStages * kStageBytes + 2048 <= kMemory;
}

StreamSource stream_source(const Codes& codes) {
  const std::optional<CUtensorMap> map = weight_map(codes);
  CHECK(map, "the driver makes no map of weights");
  return {.map = *map,
          .scales = codes.scales,
          .scale_columns = codes.scale_columns,
          .scale_rows = codes.scale_rows,
          .block_rows = codes.block_rows,
          .rows = static_cast<int32_t>(codes.rows)};
}

Extents stream_extents(Context& context, Stream& s, int columns) {
  const int64_t units = int64_t{s.tiles} * s.stages;
  const int64_t blocks = std::clamp<int64_t>(units / kFewestStages, 1, context.multiprocessors());
  const int64_t held = int64_t{s.x_rows} * s.row_bytes + 4 * int64_t{s.x_rows} * s.stages * columns + 128 + 1024;
  s.ring = static_cast<int32_t>(std::clamp<int64_t>((kMemory - held) / kStageBytes, kFewestStages, kStreamRing));
  s.parts = context.take<float>(blocks * kGroups * kGroupThreads * columns / 2);
  s.flags = context.flags();
  CHECK(blocks * kGroups <= Context::kFlags);
  return {.grid = static_cast<unsigned>(blocks),
          .block = kStreamThreads,
          .shared = static_cast<size_t>(held + int64_t{s.ring} * kStageBytes)};
}

void multiply_streamed(Context& context, std::span<const Product> products) {
  const Product& first = products.front();
  Stream s{.source_count = static_cast<int32_t>(products.size()),
           .stages = static_cast<int32_t>(first.codes.columns / stage_columns(first.codes)),
           .gated = first.gated,
           .x = first.x,
           .tokens = static_cast<int32_t>(first.slots),
           .x_rows = 1,
           .row_bytes = static_cast<int32_t>(row_bytes(first.codes, first.slots))};
  for (size_t i = 0; i < products.size(); ++i) {
    s.sources[i] = stream_source(products[i].codes);
    s.sources[i].out = products[i].out;
    s.sources[i].first_tile = s.tiles;
    s.tiles += static_cast<int32_t>((products[i].codes.rows + 127) / 128);
  }
  const int columns = columns_of(first.codes, first.slots);
  first.codes.coding == Coding::Fp8 ? run<true>(context, s, columns) : run<false>(context, s, columns);
}

}  // namespace braid::cuda
