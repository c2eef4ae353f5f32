// Which of the two instruction sets this machine runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/executor.h"
#include "cpu/kernels.h"

namespace braid::cpu {

// avx2: AVX2, FMA, F16C, BMI1 and BMI2 (Haswell and later). avx512: those and AVX-512 F, BW, DQ, VL, VBMI, VNNI and
// BF16 (Zen 4 and later, Sapphire Rapids and later); a machine with a part of these runs avx2.
bool has_avx2();
bool has_avx512();

namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

// Auto: the better one that the machine has. A Usage error when it lacks what was asked for.
CpuOptions::Instructions choose_instructions(CpuOptions::Instructions asked);

}  // namespace braid::cpu
