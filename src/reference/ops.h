// The ops of the reference executor, one function each; the formulas are those of the op's header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op.h"

namespace braid::reference {

void compute(const Copy& op);
void compute(const Gather& op);
void compute(const Fill& op);
void compute(const Embed& op);
void compute(const AddNorm& op);
void compute(const Linear& op);
void compute(const GatedLinear& op);
void compute(const PrepareHeads& op);
void compute(const PagedAttention& op);
void compute(const GateBy& op);
void compute(const DeltaRule& op);
void compute(const Route& op);
void compute(const Experts& op);
void compute(const Penalise& op);
void compute(const MaskTokens& op);
void compute(const Sample& op);
void compute(const TopLogprobs& op);

}  // namespace braid::reference
