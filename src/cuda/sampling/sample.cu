// Draws and log-probabilities: many blocks look a row over, then one a row draws, most often from few candidates.
// Bounded by passes over a row in L2.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/error.h"
#include "cuda/common/start.h"
#include "cuda/launch.h"
#include "cuda/sampling/bins.h"
#include "cuda/sampling/candidates.h"
#include "cuda/sampling/row.h"
#include "cuda/sampling/search.h"

namespace braid::cuda {
namespace {

// A warp a run, a block a part.
__global__ void __launch_bounds__(kRunsOfPart * 32) survey_kernel(Survey survey, LogitRow row, int64_t stride) {
  constexpr int kAtOnce = 8;
  __shared__ float largest[kRunsOfPart], sums[kRunsOfPart];
  const int64_t r = blockIdx.y;
  const int part = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
  const int32_t run = part * kRunsOfPart + warp, length = Survey::length(row.count);
  const int32_t begin = run * length, end = min(row.count, begin + length);
  row.logits += r * stride;
  await_earlier();
  Entry best;
  float sum = 0;  // of exp(logit - best.logit), on each lane
  for (int32_t i = begin + lane; i < end; i += kAtOnce * 32) {
    float logits[kAtOnce];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) logits[n] = i + 32 * n < end ? row.at(i + 32 * n) : -INFINITY;
    const float before = best.logit;
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n)
      if (logits[n] > best.logit) best = {logits[n], i + 32 * n};
    if (best.logit == -INFINITY) continue;
    sum *= expf(before - best.logit);
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) sum += expf(logits[n] - best.logit);
  }
  const float own = best.logit;
  best = first_of_warp(best);
  sum = sum_of_warp(own > -INFINITY ? sum * expf(own - best.logit) : 0.0f);
  if (lane == 0) survey.largest[r * kRuns + run] = best, largest[warp] = best.logit, sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float most = -INFINITY, all = 0;
  for (const float one : largest) most = fmaxf(most, one);
  for (int w = 0; w < kRunsOfPart; ++w)
    if (sums[w] > 0) all += sums[w] * expf(largest[w] - most);
  survey.parts[r * kParts + part] = {most, all};
}

struct Arguments {
  int32_t* tokens;
  float *logprobs, *logits;
  const std::byte* params;
  int64_t logits_stride, params_stride;
  int32_t vocabulary;
  Survey survey;
  Mass* masses;
};

// The log of the sum of exp(logit - largest) over the row; by a warp.
__device__ double log_sum(const float2* parts, float largest) {
  double sum = 0;
#pragma unroll
  for (int part = threadIdx.x % 32; part < kParts; part += 32)
    if (parts[part].y > 0)
      sum += static_cast<double>(parts[part].y) * exp(static_cast<double>(parts[part].x - largest));
  return log(sum_of_warp(sum));
}

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(Arguments a) {
  __shared__ Entry entries[32];
  __shared__ Mass sums[33];
  extern __shared__ uint64_t memory[];
  Bins& bins = *reinterpret_cast<Bins*>(memory);
  Candidates& candidates = bins.tokens;
  const int64_t r = blockIdx.x;
  const LogitRow row{a.logits + r * a.logits_stride, a.vocabulary};
  await_earlier();
  const Entry mine = a.survey.largest[r * kRuns + threadIdx.x];
  const Entry first = first_of_block(mine, entries);
  int32_t token = -1;
  if (first.index != INT32_MAX) {
    const auto& how = *reinterpret_cast<const SampleRow*>(a.params + r * a.params_stride);
    int32_t count = 0;
    if (how.temperature <= 0) {
      token = first.index;
    } else if (how.top_k > 0 && collect(row, how.top_k, mine.logit, candidates, count)) {
      if (count <= kSampleThreads)
        token = draw_sorted(sorted(candidates, count, candidates.masses), count, how, first.logit, sums);
      else
        token = candidates.tokens[draw_by_search({candidates.logits, count}, how, first, candidates.masses, sums)];
    } else {
      if (how.top_k <= 0) token = draw_by_bins({row, how, first.logit, bins, sums});
      if (token < 0) token = draw_by_search(row, how, first, a.masses + r * a.vocabulary, sums);
    }
  }
  if (threadIdx.x >= 32) return;
  const double base = token < 0 ? 0 : log_sum(a.survey.parts + r * kParts, first.logit);
  const float logprob =
      token < 0 ? -INFINITY
                : static_cast<float>(static_cast<double>(row.at(token)) - static_cast<double>(first.logit) - base);
  if (threadIdx.x == 0) a.tokens[r] = token, a.logprobs[r] = logprob;
}

struct TopArguments {
  int32_t* tokens;
  float *logprobs, *logits;
  int64_t tokens_stride, logprobs_stride, logits_stride;
  int32_t vocabulary, n;
};

__global__ void __launch_bounds__(kSampleThreads) top_kernel(TopArguments a) {
  __shared__ Entry entries[32];
  __shared__ double doubles[32];
  const int64_t r = blockIdx.x;
  const LogitRow row{a.logits + r * a.logits_stride, a.vocabulary};
  Entry last = row.next({INFINITY, -1}, entries);
  const Entry first = last;
  const double base = first.index == INT32_MAX ? 0 : row.log_sum(first.logit, doubles);
  for (int32_t i = 0; i < a.n; ++i) {
    const bool there = last.index != INT32_MAX;
    if (threadIdx.x == 0) {
      a.tokens[r * a.tokens_stride + i] = there ? last.index : -1;
      a.logprobs[r * a.logprobs_stride + i] =
          there ? static_cast<float>(static_cast<double>(last.logit) - static_cast<double>(first.logit) - base)
                : -INFINITY;
    }
    if (there && i + 1 < a.n) last = row.next(last, entries);
  }
}

}  // namespace

void launch(Context& context, const Sample& op) {
  if (op.logits.rows() == 0) return;
  const int64_t rows = op.logits.rows();
  const Survey survey{.largest = context.take<Entry>(rows * kRuns), .parts = context.take<float2>(rows * kParts)};
  const LogitRow row{op.logits.as<float>(), static_cast<int32_t>(op.logits.width())};
  const Arguments arguments{.tokens = op.tokens.as<int32_t>(),
                            .logprobs = op.logprobs.as<float>(),
                            .logits = op.logits.as<float>(),
                            .params = op.params.data,
                            .logits_stride = op.logits.stride(0),
                            .params_stride = op.params.stride(0),
                            .vocabulary = row.count,
                            .survey = survey,
                            .masses = context.take<Mass>(op.logits.elements())};
  start(context, survey_kernel, {.grid = dim3(kParts, static_cast<unsigned>(rows)), .block = kRunsOfPart * 32}, survey,
        row, op.logits.stride(0));
  check(cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Bins)),
        "shared memory");
  start(context, sample_kernel, {.grid = static_cast<unsigned>(rows), .block = kSampleThreads, .shared = sizeof(Bins)},
        arguments);
}

void launch(Context& context, const TopLogprobs& op) {
  if (op.logits.rows() == 0 || op.tokens.width() == 0) return;
  const TopArguments arguments{.tokens = op.tokens.as<int32_t>(),
                               .logprobs = op.logprobs.as<float>(),
                               .logits = op.logits.as<float>(),
                               .tokens_stride = op.tokens.stride(0),
                               .logprobs_stride = op.logprobs.stride(0),
                               .logits_stride = op.logits.stride(0),
                               .vocabulary = static_cast<int32_t>(op.logits.width()),
                               .n = static_cast<int32_t>(op.tokens.width())};
  top_kernel<<<static_cast<unsigned>(op.logits.rows()), kSampleThreads, 0, context.stream()>>>(arguments);
}

}  // namespace braid::cuda
