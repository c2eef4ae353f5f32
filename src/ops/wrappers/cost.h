// What an op moves and computes, from its shapes alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/op.h"

namespace braid {

struct Cost {
  double bytes =
      0;  // read and written: weights once in stored form, tensors once per direction, state of each sequence
  double flops = 0;  // a multiply and an add count two
  Cost& operator+=(const Cost& other) {
    bytes += other.bytes, flops += other.flops;
    return *this;
  }
};

// Follows no address. Experts count as many as are chosen on average where rows choose evenly; attention as if every
// sequence reached `rows.context`: both are exact for one sequence with one row.
Cost cost_of(const Op& op);

}  // namespace braid
