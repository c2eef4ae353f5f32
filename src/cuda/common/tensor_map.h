// How the copy engine finds tiles of a coded matrix in device memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <optional>

#include "cuda/common/codes.h"

namespace braid::cuda {

constexpr int kMapRows = 64;     // of a tile
constexpr int kMapBytes = 8192;  // of a tile: rows of 128 bytes, their 16-byte pieces exchanged as `swizzled` says

// Tiles of all matrices of bf16 or FP8 weights as one matrix of count * rows rows; rows of codes begin at 16 bytes.
// None where the driver does not offer it.
std::optional<CUtensorMap> weight_map(const Codes& codes);
// Tiles of `rows` rows of matrices whose first half of rows is gate and whose second is up: 8 rows of each in turn.
// Coordinates: column, 0, 0, eights of rows of gate, matrix. `rows` divides those of a matrix.
std::optional<CUtensorMap> paired_weight_map(const Codes& codes, int rows);
// Tiles of `rows` rows, but of sixteen first those whose number has 0 as its second bit, then the others, so
// that what the tensor cores give a thread are four neighbours. Coordinates: column, 0, 0, 0, sixteens of rows.
std::optional<CUtensorMap> spread_weight_map(const Codes& codes, int rows);
// Tiles of `tile_rows` pieces of 128 bytes, of rows of any type that follow each other, `bytes` each. Coordinates:
// byte, row.
std::optional<CUtensorMap> rows_map(const void* data, int64_t rows, int64_t bytes, int tile_rows);

// Tiles of sixteen rows, eight that follow each other and eight `apart` rows behind those, of which the map finds
// `pieces` pieces of `piece_bytes` (16, or 128, exchanged as `swizzled` says), one piece of all rows after the other.
// Coordinates: 0, 0, 0, piece, tile; tiles begin `tile_rows` rows after each other.
struct SixteenRows {
  const void* data = nullptr;
  int64_t row_bytes = 0, apart = 8, tile_rows = 16, tiles = 0;
  int piece_bytes = 128, pieces = 1;
};
std::optional<CUtensorMap> sixteen_map(const SixteenRows& of);

// Tiles of 16 rows and `map_bytes` bytes of each, coordinates in bytes and rows; paired: 8 rows of the first half of a
// matrix and the 8 of its second half that belong to them, coordinates byte, row of a half, 0, matrix. Of codes, with
// pieces exchanged as above, or of NVFP4's scales of groups, as they are. What lies outside reads as zero; rows have a
// multiple of 16 bytes.
enum class MapOf { Codes, Groups };
constexpr int kStreamMapRows = 16, kStreamMapBytes = 128, kGroupMapBytes = 16;
std::optional<CUtensorMap> stream_map(const Codes& codes, MapOf of, bool paired);

}  // namespace braid::cuda
