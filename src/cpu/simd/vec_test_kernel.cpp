// Largest errors of the vector functions of one instruction set, over a sweep of floats.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/simd/vec.h"
#include "cpu/simd/vec_probe.h"

namespace braid::cpu::BRAID_ISA {
namespace {

using Error = VecProbe::Error;

float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

void note(Error& worst, float x, float found, double exact) {
  if (__builtin_isnan(exact) && __builtin_isnan(found)) return;
  if (static_cast<double>(found) == exact || found == static_cast<float>(exact)) return;
  const double size = __builtin_fabs(exact) < 0x1p-126 ? 0x1p-126 : __builtin_fabs(exact);
  const double error = __builtin_fabs(found - exact) / (__builtin_ldexp(1.0, __builtin_ilogb(size)) * 0x1p-23);
  if (!(error <= worst.units)) worst = {__builtin_isnan(error) ? __builtin_inf() : error, x};
}

// Every `step`-th float of [first, last] by its bits.
template <typename Function, typename Exact>
Error sweep(float first, float last, uint32_t step, Function function, Exact exact) {
  Error worst;
  uint32_t from, to;
  __builtin_memcpy(&from, &first, 4);
  __builtin_memcpy(&to, &last, 4);
  for (uint64_t bits = from; bits <= to; bits += uint64_t{step} * kLanes) {
    float in[kLanes], out[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t place = bits + static_cast<uint64_t>(i) * step;
      in[i] = float_of(static_cast<uint32_t>(place < to ? place : to));
    }
    store(out, function(load(in)));
    for (int i = 0; i < kLanes; ++i) note(worst, in[i], out[i], exact(in[i]));
  }
  return worst;
}

Error worse(Error a, Error b) { return a.units > b.units ? a : b; }

Error exponential_error() {
  const auto function = [](Vec x) { return exponential(x); };
  const auto exact = [](float x) { return __builtin_exp(static_cast<double>(x)); };
  return worse(sweep(0.0f, 88.7f, 997, function, exact), sweep(-0.0f, -87.3f, 997, function, exact));
}
Error logarithm_error() {
  return sweep(
      0x1p-126f, 3e38f, 997, [](Vec x) { return logarithm(x); },
      [](float x) { return __builtin_log(static_cast<double>(x)); });
}
Error logarithm_1p_error() {
  return sweep(
      0.0f, 1e9f, 997, [](Vec x) { return logarithm_1p(x); },
      [](float x) { return __builtin_log1p(static_cast<double>(x)); });
}
Error sigmoid_error() {
  const auto function = [](Vec x) { return sigmoid(x); };
  const auto exact = [](float x) { return 1 / (1 + __builtin_exp(-static_cast<double>(x))); };
  return worse(sweep(0.0f, 100.0f, 997, function, exact), sweep(-0.0f, -87.0f, 997, function, exact));
}
Error silu_error() {
  const auto function = [](Vec x) { return silu(x); };
  const auto exact = [](float x) { return x / (1 + __builtin_exp(-static_cast<double>(x))); };
  return worse(sweep(0x1p-100f, 1e30f, 997, function, exact), sweep(-0x1p-100f, -85.0f, 997, function, exact));
}
Error softplus_error() {
  const auto function = [](Vec x) { return softplus(x); };
  const auto exact = [](float x) { return x > 20 ? x : __builtin_log1p(__builtin_exp(static_cast<double>(x))); };
  return worse(sweep(0.0f, 1e30f, 997, function, exact), sweep(-0.0f, -87.0f, 997, function, exact));
}

// Absolute, in units of 2^-24.
double sine_cosine_error() {
  double worst = 0;
  const auto look = [&](float x) {
    const SinCos found = sine_cosine(splat(x));
    const double sin = __builtin_fabs(found.sin[kLanes - 1] - __builtin_sin(static_cast<double>(x)));
    const double cos = __builtin_fabs(found.cos[0] - __builtin_cos(static_cast<double>(x)));
    if (!(sin <= worst)) worst = sin;
    if (!(cos <= worst)) worst = cos;
  };
  for (float x = -40.0f; x < 40.0f; x += 0.00137f) look(x);
  for (uint32_t bits = 0x3F800000; bits < 0x4F000000; bits += 9973) look(float_of(bits));
  return worst * 0x1p24;
}

// Values at the ends: what exponential, logarithm and softplus give for x.
float exponential_of(float x) { return exponential(x); }
float logarithm_of(float x) { return logarithm(x); }
float softplus_of(float x) { return softplus(x); }
float silu_of(float x) { return silu(x); }

// Whether rounding to bfloat16 gives `exact(x)` for floats of all kinds.
bool rounds_to_bf16(uint16_t (*exact)(float)) {
  for (uint64_t bits = 0; bits < 0x100000000; bits += 65521) {
    float in[kLanes];
    uint16_t out[kLanes];
    for (int i = 0; i < kLanes; ++i) in[i] = float_of(static_cast<uint32_t>(bits + static_cast<uint64_t>(i) * 977));
    store_bf16(out, load(in));
    for (int i = 0; i < kLanes; ++i)
      if (out[i] != exact(in[i])) return false;
  }
  return true;
}

// Whether all E4M3 codes and parts of vectors are read right.
bool reads_e4m3(float (*exact)(uint8_t)) {
  for (int code = 0; code < 256; ++code) {
    for (int n = 1; n <= kLanes; ++n) {
      uint8_t in[kLanes];
      float out[kLanes];
      for (uint8_t& value : in) value = static_cast<uint8_t>(code);
      store(out, load_e4m3_part(in, n));
      for (int i = 0; i < kLanes; ++i) {
        const float expected = i < n ? exact(static_cast<uint8_t>(code)) : 0.0f;
        if (out[i] != expected && !(__builtin_isnan(out[i]) && __builtin_isnan(expected))) return false;
      }
    }
  }
  return true;
}

}  // namespace

extern const VecProbe kVecProbe;
const VecProbe kVecProbe = {.exponential_error = exponential_error,
                            .logarithm_error = logarithm_error,
                            .logarithm_1p_error = logarithm_1p_error,
                            .sigmoid_error = sigmoid_error,
                            .silu_error = silu_error,
                            .softplus_error = softplus_error,
                            .sine_cosine_error = sine_cosine_error,
                            .exponential = exponential_of,
                            .logarithm = logarithm_of,
                            .softplus = softplus_of,
                            .silu = silu_of,
                            .rounds_to_bf16 = rounds_to_bf16,
                            .reads_e4m3 = reads_e4m3};

}  // namespace braid::cpu::BRAID_ISA
