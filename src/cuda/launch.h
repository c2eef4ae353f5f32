// One function per op that puts its kernels into the stream; the meaning is that of the op's header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/common/context.h"
#include "ops/op.h"

namespace braid::cuda {

void launch(Context& context, const Copy& op);
void launch(Context& context, const Gather& op);
void launch(Context& context, const Fill& op);
void launch(Context& context, const Embed& op);
void launch(Context& context, const AddNorm& op);
void launch(Context& context, const Linear& op);
void launch(Context& context, const GatedLinear& op);
void launch(Context& context, const PrepareHeads& op);
void launch(Context& context, const PagedAttention& op);
void launch(Context& context, const GateBy& op);
void launch(Context& context, const DeltaRule& op);
void launch(Context& context, const Route& op);
void launch(Context& context, const Experts& op);
void launch(Context& context, const Penalise& op);
void launch(Context& context, const MaskTokens& op);
void launch(Context& context, const Sample& op);
void launch(Context& context, const TopLogprobs& op);

}  // namespace braid::cuda
