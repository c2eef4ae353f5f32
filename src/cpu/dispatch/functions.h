// The kernels of one instruction set by name; each is defined in a file *_kernel.cpp, which is compiled once per set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/kernels.h"

namespace braid::cpu::BRAID_ISA {

void copy(const Copy&, const Share&);
void gather(const Gather&, const Share&);
void fill(const Fill&, const Share&);
void embed(const Embed&, const Share&);
void add_norm(const AddNorm&, const Share&);
void linear(const Linear&, const Share&);
void gated_linear(const GatedLinear&, const Share&);
void prepare_heads(const PrepareHeads&, const Share&);
void paged_attention(const PagedAttention&, const Share&);
void gate_by(const GateBy&, const Share&);
void delta_rule(const DeltaRule&, const Share&);
void route(const Route&, const Share&);
void experts(const Experts&, const Share&);
void penalise(const Penalise&, const Share&);
void mask_tokens(const MaskTokens&, const Share&);
void sample(const Sample&, const Share&);
void top_logprobs(const TopLogprobs&, const Share&);
double peak(const Share&);

}  // namespace braid::cpu::BRAID_ISA
