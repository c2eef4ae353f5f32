// The list of words: an op is one of these structs, a contract with named fields and no behaviour.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <variant>

#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/linear.h"
#include "ops/memory.h"
#include "ops/moe.h"
#include "ops/recurrent.h"
#include "ops/residual.h"
#include "ops/sampling.h"

namespace braid {

// Adding a word here makes every executor that lacks it fail to compile.
using Op = std::variant<Copy, Gather, Fill, Embed, AddNorm, Linear, GatedLinear, PrepareHeads, PagedAttention, GateBy,
                        DeltaRule, Route, Experts, Penalise, MaskTokens, Sample, TopLogprobs>;

inline std::string_view name_of(const Op& op) {
  return std::visit([](const auto& word) { return word.name; }, op);
}

// Every op has `fields(visitor)`, which shows its arguments by role, so that wrappers are written once for all ops:
//   in(name, tensor)  out(name, tensor)  inout(name, tensor)     absent tensors are shown too (empty)
//   weight(name, const Weight*)                                  read whole
//   gathered(name, const Weight*, rows)                          `rows` rows of it are read
//   chosen(name, const Weight*, Tensor experts)                  the matrices that `experts` names are read
//   rows(Rows&)  cache(PagedCache&, bool writes)  slots(name, tensor, Rows&)    state, read or written at the rows'
//   places

}  // namespace braid
