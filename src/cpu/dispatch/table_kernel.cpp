// The table of one instruction set's kernels.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"

namespace braid::cpu::BRAID_ISA {

extern const Kernels kKernels;
const Kernels kKernels = {.copy = copy,
                          .gather = gather,
                          .fill = fill,
                          .embed = embed,
                          .add_norm = add_norm,
                          .linear = linear,
                          .gated_linear = gated_linear,
                          .prepare_heads = prepare_heads,
                          .paged_attention = paged_attention,
                          .gate_by = gate_by,
                          .delta_rule = delta_rule,
                          .route = route,
                          .experts = experts,
                          .penalise = penalise,
                          .mask_tokens = mask_tokens,
                          .sample = sample,
                          .top_logprobs = top_logprobs,
                          .peak = peak};

}  // namespace braid::cpu::BRAID_ISA
