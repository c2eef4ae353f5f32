// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/tensor_map.h"

#include <cuda_runtime.h>

namespace braid::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// From the driver that is there: the program is not linked to it.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSince = 12000;
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kSince, cudaEnableDefault, &found);
  static_cast<void>(cudaGetLastError());
  return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

struct Shape {
  int rank;
  cuuint64_t sizes[5], strides[4];  // strides in rows, of all dimensions but the first
  cuuint32_t tile[5];               // of all dimensions but the first
};

Encode encoder() {
  static const Encode encode = find_encode();
  return encode;
}

std::optional<CUtensorMap> map_of(const Codes& codes, Shape shape) {
  const Encode encode = encoder();
  if (encode == nullptr) return {};
  const bool fp8 = codes.coding == Coding::Fp8;
  shape.sizes[0] = static_cast<cuuint64_t>(codes.columns);
  shape.tile[0] = fp8 ? 128 : 64;
  for (cuuint64_t& stride : shape.strides) stride *= shape.sizes[0] * (fp8 ? 1 : 2);
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status = encode(
      &map, fp8 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(shape.rank),
      const_cast<uint8_t*>(codes.data), shape.sizes, shape.strides, shape.tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return {};
  return map;
}

}  // namespace

std::optional<CUtensorMap> weight_map(const Codes& codes) {
  const auto rows = static_cast<cuuint64_t>(codes.count * codes.rows);
  return map_of(codes, {.rank = 2, .sizes = {0, rows}, .strides = {1}, .tile = {0, kMapRows}});
}

std::optional<CUtensorMap> paired_weight_map(const Codes& codes, int rows) {
  const auto half = static_cast<cuuint64_t>(codes.rows / 2), count = static_cast<cuuint64_t>(codes.count);
  return map_of(codes, {.rank = 5,
                        .sizes = {0, 8, 2, half / 8, count},
                        .strides = {1, half, 8, 2 * half},
                        .tile = {0, 8, 2, static_cast<cuuint32_t>(rows / 16), 1}});
}

std::optional<CUtensorMap> spread_weight_map(const Codes& codes, int rows) {
  const auto sixteens = static_cast<cuuint64_t>(codes.count * codes.rows / 16);
  return map_of(codes, {.rank = 5,
                        .sizes = {0, 2, 4, 2, sixteens},
                        .strides = {1, 4, 2, 16},
                        .tile = {0, 2, 4, 2, static_cast<cuuint32_t>(rows / 16)}});
}

std::optional<CUtensorMap> rows_map(const void* data, int64_t rows, int64_t bytes, int tile_rows) {
  const Codes codes{.data = static_cast<const uint8_t*>(data), .coding = Coding::Fp8, .columns = bytes};
  return map_of(codes, {.rank = 2,
                        .sizes = {0, static_cast<cuuint64_t>(rows)},
                        .strides = {1},
                        .tile = {0, static_cast<cuuint32_t>(tile_rows)}});
}

std::optional<CUtensorMap> sixteen_map(const SixteenRows& of) {
  static const Encode encode = find_encode();
  if (encode == nullptr) return {};
  const auto row = static_cast<cuuint64_t>(of.row_bytes), piece = static_cast<cuuint64_t>(of.piece_bytes);
  const cuuint64_t sizes[5] = {piece, 8, 2, row / piece, static_cast<cuuint64_t>(of.tiles)};
  const cuuint64_t strides[4] = {row, static_cast<cuuint64_t>(of.apart) * row, piece,
                                 static_cast<cuuint64_t>(of.tile_rows) * row};
  const cuuint32_t box[5] = {static_cast<cuuint32_t>(piece), 8, 2, static_cast<cuuint32_t>(of.pieces), 1},
                   steps[5] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 5, const_cast<void*>(of.data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, piece == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return {};
  return map;
}

namespace {

int64_t code_row_bytes(const Codes& codes) {
  switch (codes.coding) {
    case Coding::F32:
      return 4 * codes.columns;
    case Coding::BF16:
    case Coding::F16:
      return 2 * codes.columns;
    case Coding::Nvfp4:
      return codes.columns / 2;
    default:
      return codes.columns;
  }
}

}  // namespace

std::optional<CUtensorMap> stream_map(const Codes& codes, MapOf of, bool paired) {
  if (encoder() == nullptr) return {};
  const bool groups = of == MapOf::Groups;
  const auto row = static_cast<cuuint64_t>(groups ? codes.columns / 16 : code_row_bytes(codes));
  const auto rows = static_cast<cuuint64_t>(codes.rows), count = static_cast<cuuint64_t>(codes.count);
  const cuuint64_t flat[] = {row, count * rows}, halves[] = {row, rows / 2, 2, count};
  const cuuint64_t steps_of_flat[] = {row}, steps_of_halves[] = {row, rows / 2 * row, rows * row};
  const cuuint32_t bytes = groups ? kGroupMapBytes : kStreamMapBytes;
  const cuuint32_t tile_of_flat[] = {bytes, kStreamMapRows}, tile_of_halves[] = {bytes, kStreamMapRows / 2, 2, 1};
  const cuuint32_t each[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status = encoder()(
      &map, CU_TENSOR_MAP_DATA_TYPE_UINT8, paired ? 4 : 2, const_cast<uint8_t*>(groups ? codes.groups : codes.data),
      paired ? halves : flat, paired ? steps_of_halves : steps_of_flat, paired ? tile_of_halves : tile_of_flat, each,
      CU_TENSOR_MAP_INTERLEAVE_NONE, groups ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return {};
  return map;
}

}  // namespace braid::cuda
