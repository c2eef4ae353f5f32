// What the multipliers can do when nothing waits for memory: the limit that products are measured against.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/simd/vec.h"

#include BRAID_UNITS_HEADER

namespace braid::cpu::BRAID_ISA {
namespace {

// As many sums as hide the latency of one multiply-add.
constexpr int kSums = 12;
constexpr int64_t kRounds = 100'000;

template <Operand operand>
double multiply() {
  Vec sums[kSums];
  for (Vec& sum : sums) sum = splat(0.0f);
  Ints a = bits_of(splat(1e-3f)), b = bits_of(splat(1e-3f));
  for (int64_t round = 0; round < kRounds; ++round) {
    asm volatile("" : "+v"(a), "+v"(b));  // the operands may change as far as the compiler knows
    for (Vec& sum : sums) sum = add_product<operand>(sum, a, b);
  }
  for (Vec& sum : sums) asm volatile("" ::"v"(sum));
  return 2.0 * kRounds * kSums * kLanes * (operand == Operand::Pair ? 2 : 1);
}

}  // namespace

double peak(const Share& share) {
  if constexpr (kHasPairs) {
    if (share.fast) return multiply<Operand::Pair>();
  }
  return multiply<Operand::Float>();
}

}  // namespace braid::cpu::BRAID_ISA
