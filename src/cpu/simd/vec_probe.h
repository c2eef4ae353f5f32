// What tests ask of the vector functions of one instruction set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace braid::cpu {

struct VecProbe {
  struct Error {
    double units = 0;  // in the last place of the exact result, which counts as normal
    float at = 0;
  };
  // Largest errors over sweeps of the functions' domains; of sine and cosine absolute, in units of 2^-24.
  Error (*exponential_error)();
  Error (*logarithm_error)();
  Error (*logarithm_1p_error)();
  Error (*sigmoid_error)();
  Error (*silu_error)();
  Error (*softplus_error)();
  double (*sine_cosine_error)();
  float (*exponential)(float);
  float (*logarithm)(float);
  float (*softplus)(float);
  float (*silu)(float);
  // Whether stores round as `exact` does for floats of all kinds; whether all codes, and parts of vectors, are read as
  // `exact` does.
  bool (*rounds_to_bf16)(uint16_t (*exact)(float));
  bool (*reads_e4m3)(float (*exact)(uint8_t));
};

namespace avx2 {
extern const VecProbe kVecProbe;
}
namespace avx512 {
extern const VecProbe kVecProbe;
}

}  // namespace braid::cpu
