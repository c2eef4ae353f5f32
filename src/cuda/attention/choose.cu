// The op PagedAttention: which kernel takes which rows.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/kernels.h"
#include "cuda/launch.h"

namespace braid::cuda {
namespace {

bool is_hopper() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for its kind");
  return major == 9;
}

bool for_tensor_cores(const PagedAttention& op) {
  const int64_t size = op.q.width();
  if (size % 8 != 0 || size < 64 || size > 256 || op.out.width() != size || !(op.scale > 0)) return false;
  return aligned_pages(op.cache.keys, size) && aligned_pages(op.cache.values, size);
}

}  // namespace

void launch(Context& context, const PagedAttention& op) {
  if (op.rows.tokens == 0) return;
  if (!context.fast()) return attend_plain(context, op, 0);
  if (!for_tensor_cores(op)) {
    context.say_once(fmt::format("cuda: attention with heads of {} and keys in {} runs without tensor cores",
                                 op.q.width(), name_of(op.cache.keys.dtype)));
    return attend_plain(context, op, 0);
  }
  if (op.rows.thin > 0) attend_single_rows(context, op);
  if (op.rows.tokens == op.rows.thin) return;
  if (is_hopper()) return attend_prompt(context, op);
  context.say_once("cuda: attention of prompts runs without tensor cores on this device");
  attend_plain(context, op, op.rows.thin);
}

}  // namespace braid::cuda
