// Sampling: sweeps over a row of logits; what is chosen from the few that matter is in ranking.cpp. A work item is a
// row. Bound by the exponentials.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "cpu/dispatch/functions.h"
#include "cpu/memory/elements.h"
#include "cpu/sampling/ranking.h"

namespace braid::cpu::BRAID_ISA {
namespace {

constexpr float kNothing = -__builtin_inff();

// The largest logit; -infinity when there is none but NaN and -infinity.
float largest_logit(const float* logits, int64_t width) {
  const Vec nothing = splat(kNothing);
  Vec top[4] = {nothing, nothing, nothing, nothing};
  int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) top[j] = maximum(load(logits + i + j * kLanes), top[j]);
  float result = largest(maximum(maximum(top[0], top[1]), maximum(top[2], top[3])));
  for (; i < width; ++i) result = logits[i] > result ? logits[i] : result;
  return result;
}

// The first token with that logit.
int32_t token_of(const float* logits, int64_t width, float logit) {
  int64_t i = 0;
  while (i + kLanes <= width && !any(equal(load(logits + i), splat(logit)))) i += kLanes;
  while (i + 1 < width && logits[i] != logit) ++i;
  return static_cast<int32_t>(i);
}

// log(sum of e^logit); NaN counts as -infinity.
double log_sum(const float* logits, int64_t width, float largest_of_row) {
  constexpr int64_t kVectors = 32;  // added up in f32 before they go to the double
  const Vec base = splat(largest_of_row), nothing = splat(kNothing);
  double total = 0;
  int64_t i = 0;
  while (i + kLanes <= width) {
    Vec part = zero();
    for (int64_t j = 0; j < kVectors && i + kLanes <= width; ++j, i += kLanes)
      part = part + exponential(maximum(load(logits + i), nothing) - base);
    total += static_cast<double>(sum(part));
  }
  for (; i < width; ++i) total += logits[i] > kNothing ? exp(static_cast<double>(logits[i]) - largest_of_row) : 0.0;
  return static_cast<double>(largest_of_row) + log(total);
}

int64_t collect(const LogitRow& row, float above, float to, int32_t* tokens) {
  int64_t count = 0, i = 0;
  const auto take = [&](int64_t token) {
    const float logit = row.logits[token];
    tokens[count] = static_cast<int32_t>(token);
    count += above < logit && logit <= to ? 1 : 0;
  };
  for (; i + kLanes <= row.width; i += kLanes)
    if (any(less(splat(above), load(row.logits + i))))
      for (int lane = 0; lane < kLanes; ++lane) take(i + lane);
  for (; i < row.width; ++i) take(i);
  return count;
}

// weights[i] = e^((logits[i] - largest) / temperature) for not too small ones, else 0, in double. The compiler
// vectorises the loop.
void fill_weights(const LogitRow& row, int64_t first, int64_t count, double inverse, double* weights) {
  constexpr double kLog2e = 1.4426950408889634074, kLn2 = 0x1.62e42fefa39efp-1, kLn2Rest = 0x1.abc9e3b39803fp-56;
  constexpr double kNearest = 0x1.8p52, kSmallest = -700.0;
  for (int64_t i = 0; i < count; ++i) {
    const double exact = (static_cast<double>(row.logits[first + i]) - static_cast<double>(row.largest)) * inverse;
    const double x = exact > kSmallest ? exact : kSmallest;  // also for NaN
    const double shifted = x * kLog2e + kNearest;
    const double n = shifted - kNearest;
    const double r = __builtin_fma(-n, kLn2Rest, __builtin_fma(-n, kLn2, x));
    double p = 1.0 / 479001600;
    p = __builtin_fma(p, r, 1.0 / 39916800);
    p = __builtin_fma(p, r, 1.0 / 3628800);
    p = __builtin_fma(p, r, 1.0 / 362880);
    p = __builtin_fma(p, r, 1.0 / 40320);
    p = __builtin_fma(p, r, 1.0 / 5040);
    p = __builtin_fma(p, r, 1.0 / 720);
    p = __builtin_fma(p, r, 1.0 / 120);
    p = __builtin_fma(p, r, 1.0 / 24);
    p = __builtin_fma(p, r, 1.0 / 6);
    p = __builtin_fma(p, r, 0.5);
    p = __builtin_fma(p, r, 1.0);
    p = __builtin_fma(p, r, 1.0);
    const uint64_t power = __builtin_bit_cast(uint64_t, shifted) << 52;
    const double weight = __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, p) + power);
    weights[i] = exact > kSmallest ? weight : 0.0;
  }
}

double total_weight(const LogitRow& row, double temperature) {
  constexpr int64_t kBlock = 512, kSums = 8;
  alignas(64) double weights[kBlock];
  double sums[kSums] = {};
  for (int64_t first = 0; first < row.width; first += kBlock) {
    const int64_t count = row.width - first < kBlock ? row.width - first : kBlock;
    fill_weights(row, first, count, 1.0 / temperature, weights);
    for (int64_t i = count; i < round_up(count, kSums); ++i) weights[i] = 0.0;
    for (int64_t i = 0; i < count; i += kSums)
      for (int64_t j = 0; j < kSums; ++j) sums[j] += weights[i + j];
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

LogitRow row_of(const Tensor& logits, int64_t row, const Share& share) {
  const int64_t width = logits.size(1);
  return {.logits = logits.row<float>(row),
          .width = width,
          .largest = largest_logit(logits.row<float>(row), width),
          .collect = collect,
          .total = total_weight,
          .tokens = reinterpret_cast<int32_t*>(share.workspace(static_cast<size_t>(width) * sizeof(int32_t)))};
}

}  // namespace

void sample(const Sample& op, const Share& share) {
  const int64_t rows = op.logits.size(0);
  for (int64_t r = share.take(rows); r >= 0; r = share.take(rows)) {
    const LogitRow row = row_of(op.logits, r, share);
    SampleRow how;
    __builtin_memcpy(&how, op.params.row<std::byte>(r), sizeof(how));
    int32_t token = -1;
    float logprob = kNothing;
    if (row.largest > kNothing) {
      token = how.temperature > 0.0f ? draw(row, how) : token_of(row.logits, row.width, row.largest);
      logprob = static_cast<float>(row.logits[token] - log_sum(row.logits, row.width, row.largest));
    }
    op.tokens.as<int32_t>()[r] = token;
    op.logprobs.as<float>()[r] = logprob;
  }
}

void top_logprobs(const TopLogprobs& op, const Share& share) {
  const int64_t rows = op.logits.size(0), count = op.tokens.size(1);
  for (int64_t r = share.take(rows); r >= 0; r = share.take(rows)) {
    const LogitRow row = row_of(op.logits, r, share);
    int32_t* tokens = op.tokens.row<int32_t>(r);
    float* logprobs = op.logprobs.row<float>(r);
    const bool some = row.largest > kNothing;
    const int64_t found = some ? rank(row, count, tokens) : 0;
    const double base = some ? log_sum(row.logits, row.width, row.largest) : 0.0;
    for (int64_t i = 0; i < found; ++i) logprobs[i] = static_cast<float>(row.logits[tokens[i]] - base);
    for (int64_t i = found; i < count; ++i) tokens[i] = -1, logprobs[i] = kNothing;
  }
}

}  // namespace braid::cpu::BRAID_ISA
