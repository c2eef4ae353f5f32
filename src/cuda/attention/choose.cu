// The op PagedAttention: which kernel takes which rows.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/kernels.h"
#include "cuda/attention/page_map.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

// The generation of the device: 9 for Hopper.
int generation() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for its generation");
  return major;
}

bool for_tensor_cores(const PagedAttention& op) {
  const int64_t size = op.q.width();
  if (size % 8 != 0 || size < 64 || size > 256 || op.out.width() != size || !(op.scale > 0)) return false;
  if (op.cache.keys.size(1) % kBoxPositions != 0) return false;
  return aligned_pages(op.cache.keys, size) && aligned_pages(op.cache.values, size);
}

}  // namespace

void launch(Context& context, const PagedAttention& op) {
  if (op.rows.tokens == 0) return;
  if (!context.fast()) return attend_plain(context, op, 0);
  const int hardware = generation();
  if (hardware < 9 || !for_tensor_cores(op)) {
    context.say_once(fmt::format("cuda: attention with heads of {} in {}, pages of {}, runs without tensor cores here",
                                 op.q.width(), name_of(op.cache.keys.dtype), op.cache.keys.size(1)));
    return attend_plain(context, op, 0);
  }
  if (op.rows.thin > 0) attend_single_rows(context, op);
  if (op.rows.tokens == op.rows.thin) return;
  if (hardware == 9) return attend_prompt(context, op);
  context.say_once("cuda: attention of prompts runs without tensor cores on this device");
  attend_plain(context, op, op.rows.thin);
}

}  // namespace braid::cuda
