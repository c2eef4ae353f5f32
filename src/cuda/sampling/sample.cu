// Draws and log-probabilities: one block a row. The order of the tokens is never made: what is kept is always the front
// of it, so a cut is a logit and a number of ties, found bit by bit from sums over the row. Shares are whole numbers of
// 2^-45, so sums do not depend on their order. Bounded by passes over a row in L2.
// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "cuda/common/error.h"
#include "cuda/launch.h"
#include "cuda/sampling/row.h"

namespace braid::cuda {
namespace {

using Mass = unsigned long long;

// Logits as whole numbers in the same order; -0 equals 0.
__device__ uint32_t key_of(float logit) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The front of the order: every token with a greater key, and `ties` of those with this one.
struct Front {
  uint32_t key = 0;
  Mass ties = 0;
  Mass tie_share = 0;  // of each of those
};

struct Found {
  uint32_t key = 0;
  Mass tie = 0, share = 0;  // the how-manieth of its key, and what each of them weighs
  bool there = false;
};

// Sums and searches over one row. `share` of a token: one for counting, its mass, or its mass unless below a floor.
struct Search {
  LogitRow row;
  const Mass* masses;  // null: count
  Mass floor = 0;
  Mass* scratch;

  __device__ Mass share(int32_t i) const {
    if (masses == nullptr) return 1;
    return masses[i] >= floor ? masses[i] : 0;
  }
  // Of the tokens of `front` with at least `key`.
  __device__ Mass sum(const Front& front, uint32_t key) const {
    Mass sum = 0;
    for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x) {
      const float logit = row.at(i);
      const uint32_t its = key_of(logit);
      if (logit > -INFINITY && its >= key && its > front.key) sum += share(i);
    }
    sum = sum_of_block(sum, scratch);
    const Mass tied = masses == nullptr ? 1 : front.tie_share >= floor ? front.tie_share : 0;
    return front.key >= key ? sum + front.ties * tied : sum;
  }
  // The first token of `front` at which the sum, itself included, exceeds `target`.
  __device__ Found find(const Front& front, Mass target) const {
    Found found;
    if (sum(front, 0) <= target) return found;
    for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2)
      if (sum(front, found.key | bit) > target) found.key |= bit;
    const Mass above = found.key == 0xFFFFFFFFu ? 0 : sum(front, found.key + 1);
    Mass largest = 0;
    for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x)
      if (row.at(i) > -INFINITY && key_of(row.at(i)) == found.key) largest = share(i) > largest ? share(i) : largest;
    found.share = largest_of_block(largest);
    found.tie = (target - above) / found.share;
    found.there = true;
    return found;
  }
  __device__ Mass largest_of_block(Mass value) const {
    for (int offset = 16; offset > 0; offset /= 2) {
      const Mass other = __shfl_xor_sync(kAllLanes, value, offset);
      value = other > value ? other : value;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) value = scratch[warp] > value ? scratch[warp] : value;
    return value;
  }
};

// The tokens that top_k may keep, in the order of their indices: few, so that searches among them are quick.
struct Candidates {
  static constexpr int kMost = 4096;
  float logits[kMost];
  Mass masses[kMost];
  int32_t tokens[kMost];
  int32_t counts[kSampleThreads];
};

// Where thread t's `count` tokens begin when all threads' lie behind each other; `total` gets the sum.
__device__ int32_t place_among(int32_t count, int32_t* counts, int32_t& total) {
  __shared__ int32_t warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t upto = count;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, upto, offset);
    if (lane >= offset) upto += other;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  int32_t before_warp = 0;
  total = 0;
  for (int w = 0; w < kSampleThreads / 32; ++w) {
    if (w < warp) before_warp += warps[w];
    total += warps[w];
  }
  counts[threadIdx.x] = count;
  return before_warp + upto - count;
}

// Collects every token that may be among the `k` first; false, and nothing, when they do not fit. Each thread's largest
// logit stands for one token at least, so the k-th largest of those is a bound.
__device__ bool collect(const LogitRow& row, int32_t k, Candidates& out, int32_t& found) {
  if (k > kSampleThreads) return false;
  float largest = -INFINITY;
  for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x) largest = fmaxf(largest, row.at(i));
  const uint32_t mine = key_of(largest);
  uint32_t bound = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2)
    if (__syncthreads_count(mine >= (bound | bit)) >= k) bound |= bit;
  const int32_t length = (row.count + kSampleThreads - 1) / kSampleThreads, first = threadIdx.x * length;
  const int32_t end = min(row.count, first + length);
  const auto wanted = [&](int32_t i) { return row.at(i) > -INFINITY && key_of(row.at(i)) >= bound; };
  int32_t count = 0;
  for (int32_t i = first; i < end; ++i) count += wanted(i);
  int32_t at = place_among(count, out.counts, found);
  if (found > Candidates::kMost) return false;
  for (int32_t i = first; i < end; ++i)
    if (wanted(i)) out.logits[at] = row.at(i), out.tokens[at++] = i;
  __syncthreads();
  return true;
}

struct Arguments {
  int32_t* tokens;
  float *logprobs, *logits;
  const std::byte* params;
  int64_t logits_stride, params_stride;
  int32_t vocabulary;
  Mass* masses;
};

// The token that is number `tie` of those with `key`, by index.
__device__ int32_t tied_token(const LogitRow& row, uint32_t key, Mass tie) {
  __shared__ int32_t counts[kSampleThreads];
  __shared__ int32_t token;
  const int32_t length = (row.count + kSampleThreads - 1) / kSampleThreads, first = threadIdx.x * length;
  const int32_t end = min(row.count, first + length);
  const auto tied = [&](int32_t i) { return row.at(i) > -INFINITY && key_of(row.at(i)) == key; };
  int32_t count = 0;
  for (int32_t i = first; i < end; ++i) count += tied(i);
  __syncthreads();
  counts[threadIdx.x] = count;
  __syncthreads();
  int32_t skipped = 0;
  for (unsigned thread = 0; thread < threadIdx.x; ++thread) skipped += counts[thread];
  const auto wanted = static_cast<int64_t>(tie) - skipped;
  if (wanted >= 0 && wanted < count) {
    int32_t left = static_cast<int32_t>(wanted);
    for (int32_t i = first; i < end; ++i)
      if (tied(i) && left-- == 0) token = i;
  }
  __syncthreads();
  return token;
}

constexpr float kWhole = 0x1p45f;

__device__ int32_t draw(const LogitRow& row, const SampleRow& how, const Entry& first, Mass* masses, Mass* scratch) {
  for (int32_t i = threadIdx.x; i < row.count; i += blockDim.x)
    masses[i] = __float2ull_rn(expf((row.at(i) - first.logit) / how.temperature) * kWhole);
  __syncthreads();
  const Search counting{row, nullptr, 0, scratch}, weighing{row, masses, 0, scratch};
  Front front;
  if (how.top_k > 0) {
    const Found last = counting.find(front, static_cast<Mass>(how.top_k - 1));
    if (last.there) {
      const Found weight = weighing.find({}, weighing.sum({}, last.key) - 1);  // the mass of a token with that key
      front = {last.key, last.tie + 1, weight.key == last.key ? weight.share : 0};
    }
  }
  if (how.top_p < 1.0f) {
    const double target = ceil(static_cast<double>(how.top_p) * static_cast<double>(weighing.sum(front, 0)));
    const Found last = weighing.find(front, target >= 1 ? static_cast<Mass>(target) - 1 : 0);
    if (last.there) front = {last.key, last.tie + 1, last.share};
  }
  const Search drawing{row, masses, static_cast<Mass>(ceil(static_cast<double>(how.min_p) * kWhole)), scratch};
  const double total = static_cast<double>(drawing.sum(front, 0));
  const double at = static_cast<double>(uniform(how.key, how.position, 0)) * total;
  const Found found = drawing.find(front, static_cast<Mass>(at));
  return found.there ? tied_token(row, found.key, found.tie) : 0;
}

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(Arguments a) {
  __shared__ Entry entries[32];
  __shared__ double doubles[32];
  __shared__ Mass sums[32];
  extern __shared__ uint64_t memory[];
  Candidates& candidates = *reinterpret_cast<Candidates*>(memory);
  const int64_t r = blockIdx.x;
  const LogitRow row{a.logits + r * a.logits_stride, a.vocabulary};
  const Entry first = row.next({INFINITY, -1}, entries);
  int32_t token = -1;
  float logprob = -INFINITY;
  if (first.index != INT32_MAX) {
    const double base = row.log_sum(first.logit, doubles);
    const auto& how = *reinterpret_cast<const SampleRow*>(a.params + r * a.params_stride);
    int32_t count = 0;
    if (how.temperature <= 0) {
      token = first.index;
    } else if (how.top_k > 0 && collect(row, how.top_k, candidates, count)) {
      token = candidates.tokens[draw({candidates.logits, count}, how, first, candidates.masses, sums)];
    } else {
      token = draw(row, how, first, a.masses + r * a.vocabulary, sums);
    }
    logprob = static_cast<float>(static_cast<double>(row.at(token)) - static_cast<double>(first.logit) - base);
  }
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
  const Arguments arguments{.tokens = op.tokens.as<int32_t>(),
                            .logprobs = op.logprobs.as<float>(),
                            .logits = op.logits.as<float>(),
                            .params = op.params.data,
                            .logits_stride = op.logits.stride(0),
                            .params_stride = op.params.stride(0),
                            .vocabulary = static_cast<int32_t>(op.logits.width()),
                            .masses = context.take<Mass>(op.logits.elements())};
  check(cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Candidates)),
        "shared memory");
  sample_kernel<<<static_cast<unsigned>(op.logits.rows()), kSampleThreads, sizeof(Candidates), context.stream()>>>(
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
