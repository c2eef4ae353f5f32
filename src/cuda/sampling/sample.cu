// Draws and log-probabilities: many blocks look a row over, then one a row draws. The order of the tokens is never
// made: what is kept is always the front of it, so a cut is a logit and a number of ties, found bit by bit from sums
// over the row. Shares are whole numbers of 2^-45, so sums do not depend on their order. Bounded by passes over a row
// in L2. SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "cuda/common/error.h"
#include "cuda/common/start.h"
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

// What a first kernel finds of a row: the largest entry of each of 1,024 runs of tokens, and by part, which are 32
// runs, the sum of exp(logit - the part's largest logit).
constexpr int kRuns = kSampleThreads, kParts = 32, kSurveyWarps = 8;

struct Survey {
  Entry* largest;  // [rows, kRuns]
  float2* parts;   // [rows, kParts]: largest logit, sum

  __device__ static int32_t length(int32_t count) { return (count + kRuns - 1) / kRuns; }
};

__global__ void __launch_bounds__(kSurveyWarps * 32) survey_kernel(Survey survey, LogitRow row, int64_t stride) {
  constexpr int kOwn = kRuns / kParts / kSurveyWarps, kAtOnce = 8;
  __shared__ float largest[kSurveyWarps], scratch[32];
  const int64_t r = blockIdx.y;
  const int part = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
  const int32_t length = Survey::length(row.count), first_run = part * (kRuns / kParts) + warp * kOwn;
  row.logits += r * stride;
  // Each token once: those of a lane are 32 apart.
  const auto each = [&](int32_t run, auto&& visit) {
    const int32_t end = min(row.count, (run + 1) * length);
    for (int32_t i = run * length + lane; i < end; i += kAtOnce * 32) {
      float logits[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) logits[n] = i + 32 * n < end ? row.at(i + 32 * n) : -INFINITY;
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) visit(i + 32 * n, logits[n]);
    }
  };
  await_earlier();
  float mine = -INFINITY;
  for (int n = 0; n < kOwn; ++n) {
    Entry best;
    each(first_run + n, [&](int32_t i, float logit) {
      if (logit > best.logit) best = {logit, i};
    });
    best = first_of_warp(best);
    if (lane == 0) survey.largest[r * kRuns + first_run + n] = best;
    mine = fmaxf(mine, best.logit);
  }
  if (lane == 0) largest[warp] = mine;
  __syncthreads();
  for (const float other : largest) mine = fmaxf(mine, other);
  float sum = 0;
  if (mine > -INFINITY)
    for (int n = 0; n < kOwn; ++n) each(first_run + n, [&](int32_t, float logit) { sum += expf(logit - mine); });
  sum = sum_of_block(sum, scratch);
  if (threadIdx.x == 0) survey.parts[r * kParts + part] = {mine, sum};
}

// The tokens that top_k may keep, in the order of their indices: few, so that searches among them are quick.
struct Candidates {
  static constexpr int kMost = 4096;
  float logits[kMost];
  Mass masses[kMost];
  int32_t tokens[kMost];
  int32_t runs[kRuns], counts[kRuns];
};

// Where thread t's `count` things begin when all threads' lie behind each other; `total` gets the sum.
__device__ int32_t place_among(int32_t count, int32_t& total) {
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
  return before_warp + upto - count;
}

// Collects every token that may be among the `k` first; false, and nothing, when they do not fit. The largest logit of
// a run stands for one token at least, so the k-th largest of those, `largest` on each thread, is a bound, and only
// runs that reach it are looked at.
__device__ bool collect(const LogitRow& row, int32_t k, float largest, Candidates& out, int32_t& found) {
  if (k > kRuns) return false;
  const uint32_t mine = key_of(largest);
  uint32_t bound = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit /= 2)
    if (__syncthreads_count(mine >= (bound | bit)) >= k) bound |= bit;
  const bool reaches = largest > -INFINITY && mine >= bound;
  int32_t runs = 0;
  const int32_t place = place_among(reaches, runs);
  if (reaches) out.runs[place] = static_cast<int32_t>(threadIdx.x);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t length = Survey::length(row.count);
  // Calls visit(run's number, token, wanted) for all lanes together.
  const auto each = [&](auto&& visit) {
    for (int32_t n = warp; n < runs; n += kSampleThreads / 32) {
      const int32_t from = out.runs[n] * length, end = min(row.count, from + length);
      for (int32_t i = from; i < end; i += 32) {
        const bool inside = i + lane < end;
        const float logit = inside ? row.at(i + lane) : -INFINITY;
        visit(n, i + lane, logit, logit > -INFINITY && key_of(logit) >= bound);
      }
    }
  };
  out.counts[threadIdx.x] = 0;
  __syncthreads();
  each([&](int32_t n, int32_t, float, bool wanted) {
    const unsigned votes = __ballot_sync(kAllLanes, wanted);
    if (lane == 0) out.counts[n] += __popc(votes);
  });
  __syncthreads();
  const int32_t begin = place_among(out.counts[threadIdx.x], found);
  if (found > Candidates::kMost) return false;
  __syncthreads();
  out.counts[threadIdx.x] = begin;
  __syncthreads();
  each([&](int32_t n, int32_t token, float logit, bool wanted) {
    const unsigned votes = __ballot_sync(kAllLanes, wanted);
    const int32_t at = out.counts[n] + __popc(votes & ((1u << lane) - 1));
    if (wanted) out.logits[at] = logit, out.tokens[at] = token;
    __syncwarp();
    if (lane == 0) out.counts[n] += __popc(votes);
    __syncwarp();
  });
  __syncthreads();
  return true;
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

// The sums of all threads' values up to each.
__device__ Mass sum_up_to(Mass value, Mass* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const Mass other = __shfl_up_sync(kAllLanes, value, offset);
    if (lane >= offset) value += other;
  }
  __syncthreads();
  if (lane == 31) scratch[warp] = value;
  __syncthreads();
  for (int w = 0; w < warp; ++w) value += scratch[w];
  return value;
}

// Sorts `count` candidates, at most one a thread, into the order of choice; a thread gets the one of its place.
__device__ Entry sorted(const Candidates& from, int32_t count, Mass* keys) {
  int32_t size = 32;
  while (size < count) size *= 2;
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < size)
    keys[i] =
        i < count ? Mass{key_of(from.logits[i])} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(from.tokens[i])) : 0;
  __syncthreads();
  for (int32_t run = 2; run <= size; run *= 2)
    for (int32_t apart = run / 2; apart > 0; apart /= 2) {
      const int32_t other = i ^ apart;
      if (i < size && other > i && (keys[i] < keys[other]) == ((i & run) == 0)) {
        const Mass own = keys[i];
        keys[i] = keys[other], keys[other] = own;
      }
      __syncthreads();
    }
  if (i >= count) return {};
  const auto ordered = static_cast<uint32_t>(keys[i] >> 32);
  return {__uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7FFFFFFFu : ~ordered),
          static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(keys[i]))};
}

// A draw among few: sorted, each cut is a place. `mine` is the candidate at this thread's place.
__device__ int32_t draw_sorted(const Entry& mine, int32_t count, const SampleRow& how, float largest, Mass* scratch) {
  __shared__ int32_t token;
  const auto place = static_cast<int32_t>(threadIdx.x);
  const Mass mass = place < count ? __float2ull_rn(expf((mine.logit - largest) / how.temperature) * kWhole) : 0;
  const Mass up_to = sum_up_to(mass, scratch);
  const auto sum_of = [&](int32_t kept) {
    __syncthreads();
    if (place == kept - 1) scratch[32] = up_to;
    __syncthreads();
    return static_cast<double>(scratch[32]);
  };
  int32_t kept = min(count, how.top_k);
  if (how.top_p < 1.0f) {
    const double target = ceil(static_cast<double>(how.top_p) * sum_of(kept));
    kept = min(kept, __syncthreads_count(place < kept && static_cast<double>(up_to) < target) + 1);
  }
  const auto floor = static_cast<Mass>(ceil(static_cast<double>(how.min_p) * kWhole));
  kept = __syncthreads_count(place < kept && mass >= floor);
  const auto at = static_cast<Mass>(static_cast<double>(uniform(how.key, how.position, 0)) * sum_of(kept));
  const int32_t chosen = min(kept - 1, __syncthreads_count(place < kept && up_to <= at));
  if (place == chosen) token = mine.index;
  __syncthreads();
  return token;
}

// The log of the sum of exp(logit - largest) over the row.
__device__ double log_sum(const float2* parts, float largest) {
  double sum = 0;
  for (int part = 0; part < kParts; ++part)
    if (parts[part].y > 0)
      sum += static_cast<double>(parts[part].y) * exp(static_cast<double>(parts[part].x - largest));
  return log(sum);
}

__global__ void __launch_bounds__(kSampleThreads) sample_kernel(Arguments a) {
  __shared__ Entry entries[32];
  __shared__ Mass sums[33];
  extern __shared__ uint64_t memory[];
  Candidates& candidates = *reinterpret_cast<Candidates*>(memory);
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
        token = candidates.tokens[draw({candidates.logits, count}, how, first, candidates.masses, sums)];
    } else {
      token = draw(row, how, first, a.masses + r * a.vocabulary, sums);
    }
  }
  if (threadIdx.x != 0) return;
  a.tokens[r] = token;
  const double base = token < 0 ? 0 : log_sum(a.survey.parts + r * kParts, first.logit);
  a.logprobs[r] =
      token < 0 ? -INFINITY
                : static_cast<float>(static_cast<double>(row.at(token)) - static_cast<double>(first.logit) - base);
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
  start(context, survey_kernel, {.grid = dim3(kParts, static_cast<unsigned>(rows)), .block = kSurveyWarps * 32}, survey,
        row, op.logits.stride(0));
  check(cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Candidates)),
        "shared memory");
  start(context, sample_kernel,
        {.grid = static_cast<unsigned>(rows), .block = kSampleThreads, .shared = sizeof(Candidates)}, arguments);
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
