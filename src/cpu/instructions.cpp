// SPDX-License-Identifier: Apache-2.0
#include "cpu/instructions.h"

#include "base/error.h"

namespace braid::cpu {

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

CpuOptions::Instructions choose_instructions(CpuOptions::Instructions asked) {
  using enum CpuOptions::Instructions;
  if (!has_avx2()) fail(ErrorKind::Usage, "this processor lacks AVX2, FMA, F16C or BMI, which the CPU executor needs");
  if (asked == Avx512 && !has_avx512())
    fail(ErrorKind::Usage, "this processor lacks a part of AVX-512 F, BW, DQ, VL, VBMI, VNNI, BF16");
  if (asked == Auto) return has_avx512() ? Avx512 : Avx2;
  return asked;
}

}  // namespace braid::cpu
