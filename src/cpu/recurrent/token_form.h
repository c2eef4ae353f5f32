// The delta rule token by token. The state is read once and written once a token; both sums over it, S^T k and S^T q,
// come from the first reading, and the second finds it in the L2 cache. Bound by the traffic of the state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/recurrent/segment.h"

namespace braid::cpu::BRAID_ISA {

// One row as the rule sees it.
struct TokenRow {
  const float *q, *k, *v;
  float* o;
  float beta, decay, kq;  // kq = k . q
};

// Columns [0, kVectors * kLanes) of a state whose rows are `stride` apart:
//   u = beta (v - decay S^T k);  S = decay S + k u^T;  o = decay S^T q + kq u
template <int kVectors>
void step_columns(const TokenRow& row, float* state, int64_t stride, int64_t key_size) {
  Vec along_k[kVectors], along_q[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) along_k[j] = along_q[j] = zero();
  for (int64_t i = 0; i < key_size; ++i) {
    const Vec k = splat(row.k[i]), q = splat(row.q[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const Vec s = load(state + i * stride + j * kLanes);
      along_k[j] = fma(k, s, along_k[j]);
      along_q[j] = fma(q, s, along_q[j]);
    }
  }
  const Vec beta = splat(row.beta), decay = splat(row.decay), kq = splat(row.kq);
  Vec u[kVectors];
#pragma GCC unroll 8
  for (int j = 0; j < kVectors; ++j) {
    u[j] = beta * fnma(decay, along_k[j], load(row.v + j * kLanes));
    store(row.o + j * kLanes, fma(kq, u[j], decay * along_q[j]));
  }
  for (int64_t i = 0; i < key_size; ++i) {
    const Vec k = splat(row.k[i]);
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* s = state + i * stride + j * kLanes;
      store(s, fma(k, u[j], decay * load(s)));
    }
  }
}

struct Extent {
  int64_t rows, columns;
};

// The last columns, fewer than a vector.
inline void step_last_columns(const TokenRow& row, float* state, int64_t stride, Extent extent) {
  Vec along_k = zero(), along_q = zero();
  for (int64_t i = 0; i < extent.rows; ++i) {
    const Vec s = load_part(state + i * stride, extent.columns);
    along_k = fma(splat(row.k[i]), s, along_k);
    along_q = fma(splat(row.q[i]), s, along_q);
  }
  const Vec decay = splat(row.decay);
  const Vec u = splat(row.beta) * fnma(decay, along_k, load(row.v));
  store(row.o, fma(splat(row.kq), u, decay * along_q));
  for (int64_t i = 0; i < extent.rows; ++i) {
    float* s = state + i * stride;
    store_part(s, fma(splat(row.k[i]), u, decay * load_part(s, extent.columns)), extent.columns);
  }
}

// Advances `state` [key_size, value_size] over the segment's rows, one after the other.
inline void run_token_form(const Segment& segment, float* state) {
  constexpr int kWide = kLanes == 16 ? 8 : 4;
  const int64_t width = segment.value_size;
  for (int64_t t = 0; t < segment.rows; ++t) {
    TokenRow row{.q = segment.q + t * segment.key_stride,
                 .k = segment.k + t * segment.key_stride,
                 .v = segment.v + t * segment.value_stride,
                 .o = segment.o + t * segment.value_stride,
                 .beta = segment.beta[t],
                 .decay = segment.decay[t]};
    row.kq = dot(row.k, row.q, segment.key_size);
    int64_t column = 0;
    const auto advance = [&](int64_t columns) { column += columns, row.v += columns, row.o += columns; };
    for (; column + kWide * kLanes <= width; advance(kWide * kLanes))
      step_columns<kWide>(row, state + column, width, segment.key_size);
    for (; column + kLanes <= width; advance(kLanes)) step_columns<1>(row, state + column, width, segment.key_size);
    if (column < width) step_last_columns(row, state + column, width, {segment.key_size, width - column});
  }
}

}  // namespace braid::cpu::BRAID_ISA
