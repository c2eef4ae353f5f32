// Vectors of floats of the instruction set that a kernel file is compiled for, and elementary functions on them.
//
// Kernel files include this and live in namespace braid::cpu::BRAID_ISA. Vec holds kLanes floats and has + - * /; loads
// and stores need no alignment; `_part` touches the first n elements only and fills with zero. Products and sums are
// never contracted by the compiler: write fma where one rounding is wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include BRAID_ISA_HEADER

namespace braid::cpu::BRAID_ISA {

// e^x within 2 units in the last place; 0 below -104, infinity above 88.73, NaN for NaN.
BRAID_INLINE Vec exponential(Vec x) {
  const Vec clamped = minimum(splat(89.0f), maximum(splat(-104.0f), x));  // NaN passes: it is the second operand
  const Vec n = nearest(clamped * splat(1.44269504f));
  const Vec r = fnma(n, splat(1.42860677e-6f), fnma(n, splat(0x1.62e4p-1f), clamped));  // ln 2 in two parts
  Vec p = splat(1.0f / 5040);
  p = fma(p, r, splat(1.0f / 720));
  p = fma(p, r, splat(1.0f / 120));
  p = fma(p, r, splat(1.0f / 24));
  p = fma(p, r, splat(1.0f / 6));
  p = fma(p, r, splat(0.5f));
  return scale_by_power(fma(p * r, r, r) + splat(1.0f), n);
}

// log x for normal x > 0 within 2 units in the last place; -infinity at 0, infinity at infinity, NaN below 0.
BRAID_INLINE Vec logarithm(Vec x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); the polynomial is that of Cephes' logf.
  const Ints shifted = add_ints(bits_of(x), splat_int(0x3F800000 - 0x3F3504F3));
  const Vec e = to_floats(add_ints(shift_right<23>(shifted), splat_int(-127)));
  const Vec m = from_bits(add_ints(and_ints(shifted, splat_int(0x007FFFFF)), splat_int(0x3F3504F3)));
  const Vec f = m - splat(1.0f), square = f * f;
  Vec p = splat(7.0376836292e-2f);
  p = fma(p, f, splat(-1.1514610310e-1f));
  p = fma(p, f, splat(1.1676998740e-1f));
  p = fma(p, f, splat(-1.2420140846e-1f));
  p = fma(p, f, splat(1.4249322787e-1f));
  p = fma(p, f, splat(-1.6668057665e-1f));
  p = fma(p, f, splat(2.0000714765e-1f));
  p = fma(p, f, splat(-2.4999993993e-1f));
  p = fma(p, f, splat(3.3333331174e-1f));
  Vec y = fma(e, splat(-2.12194440e-4f), p * f * square);
  y = fma(e, splat(0.693359375f), f + fma(splat(-0.5f), square, y));
  y = select(equal(x, zero()), splat(-__builtin_inff()), y);
  y = select(less(x, zero()), splat(__builtin_nanf("")), y);
  return select(less(x, splat(__builtin_inff())), y, x);
}

// log(1 + x) for x >= 0 within 4 units in the last place.
BRAID_INLINE Vec logarithm_1p(Vec x) {
  const Vec sum = splat(1.0f) + x, rounded = sum - splat(1.0f);
  return select(equal(rounded, zero()), x, logarithm(sum) * (x / select(equal(rounded, zero()), x, rounded)));
}

BRAID_INLINE Vec sigmoid(Vec x) { return splat(1.0f) / (splat(1.0f) + exponential(zero() - x)); }
BRAID_INLINE Vec silu(Vec x) { return x / (splat(1.0f) + exponential(zero() - x)); }
// x above 20, else log(1 + e^x).
BRAID_INLINE Vec softplus(Vec x) {
  const Vec bounded = minimum(splat(20.0f), x);
  return select(less(splat(20.0f), x), x, logarithm_1p(exponential(bounded)));
}

// sin x and cos x within 2 units in the last place of 1, for |x| < 2^31: the angle is reduced in double precision.
struct SinCos {
  Vec sin, cos;
};
BRAID_INLINE SinCos sine_cosine(Vec x) {
  Ints quadrant;
  const Vec r = reduce_quadrant(x, quadrant), square = r * r;
  Vec s = splat(-1.9515295891e-4f);
  s = fma(s, square, splat(8.3321608736e-3f));
  s = fma(s, square, splat(-1.6666654611e-1f));
  s = fma(s * square, r, r);
  Vec c = splat(2.443315711809948e-5f);
  c = fma(c, square, splat(-1.388731625493765e-3f));
  c = fma(c, square, splat(4.166664568298827e-2f));
  c = fma(c * square, square, fma(splat(-0.5f), square, splat(1.0f)));
  const Mask odd = equal(to_floats(and_ints(quadrant, splat_int(1))), splat(1.0f));
  const Ints sin_sign = shift_left<30>(and_ints(quadrant, splat_int(2)));
  const Ints cos_sign = shift_left<30>(and_ints(add_ints(quadrant, splat_int(1)), splat_int(2)));
  return {from_bits(xor_ints(bits_of(select(odd, c, s)), sin_sign)),
          from_bits(xor_ints(bits_of(select(odd, s, c)), cos_sign))};
}

// The same functions of single values, with the same bits.
BRAID_INLINE float first_of(Vec v) { return v[0]; }
BRAID_INLINE float exponential(float x) { return first_of(exponential(splat(x))); }
BRAID_INLINE float logarithm(float x) { return first_of(logarithm(splat(x))); }
BRAID_INLINE float sigmoid(float x) { return first_of(sigmoid(splat(x))); }
BRAID_INLINE float silu(float x) { return first_of(silu(splat(x))); }
BRAID_INLINE float softplus(float x) { return first_of(softplus(splat(x))); }
BRAID_INLINE float square_root(float x) { return first_of(square_root(splat(x))); }

}  // namespace braid::cpu::BRAID_ISA
