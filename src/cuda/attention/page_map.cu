// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/page_map.h"

#include <cudaTypedefs.h>

#include "cuda/common/error.h"

namespace braid::cuda {
namespace {

using Encode = PFN_cuTensorMapEncodeTiled_v12000;

// From the driver, which is not linked.
Encode find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
        "looking for tensor maps in the driver");
  if (found == nullptr) fail(ErrorKind::Resource, "CUDA: the driver has no tensor maps");
  return reinterpret_cast<Encode>(found);
}

}  // namespace

CUtensorMap page_map(const View& pages) {
  static const Encode encode = find_encode();
  const auto extent = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const cuuint64_t sizes[3] = {extent(pages.shape[3]), extent(pages.shape[2]), extent(pages.shape[0] * pages.shape[1])};
  const cuuint64_t strides[2] = {extent(pages.stride[2] * 2), extent(pages.stride[1] * 2)};
  const cuuint32_t box[3] = {64, 1, kBoxPositions}, steps[3] = {1, 1, 1};
  CUtensorMap map{};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, pages.data, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) fail(ErrorKind::Resource, "CUDA: no tensor map for pages: {}", static_cast<int>(result));
  return map;
}

}  // namespace braid::cuda
