// SPDX-License-Identifier: Apache-2.0
#include "cpu/instructions.h"

#include <cpuid.h>

#include "base/error.h"

namespace braid::cpu {
namespace {

// Half-precision conversion, whose name not every compiler knows; the system saves its registers where it saves AVX2's.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
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
