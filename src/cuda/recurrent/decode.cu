// Single rows: sequences of one row, and the one row that a prompt may have in its first or last chunk, so that a row
// has the same bits wherever a pass begins. One kernel from the convolution to the gated output. The state comes to
// registers meanwhile, is read once for both of its products, o = e^lg S^T q + (k . q) u, and goes back from there;
// queries and keys stay as the convolution leaves them, and sums are scaled by their lengths instead. Bounded by the
// state's traffic where rows are many, else by what follows the wait for the launch before: so little as can be is
// left for then.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/arrival.h"
#include "cuda/common/start.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

// Warps that hold rows of the state; one more makes gates and outputs.
constexpr int kWarps = 8, kHolders = 32 * kWarps, kThreads = kHolders + 32, kOwn = kHead / kWarps;
// Most heads for which every block takes one head: more of them take all value heads of a key head in turn.
constexpr int64_t kFewHeads = 256;

// What the threads of a block tell each other of a row.
struct Row {
  float q[kHead], k[kHead];       // behind the convolution
  float squares[kWarps];          // of q by the first half of the warps, of k by the second
  float parts[kWarps][2][kHead];  // of S^T k and S^T q
  struct alignas(16) Turn {
    float v[kHead];
    float decay, beta;
  } turns[2];  // of this value head and the next

  // 1 / |q| / sqrt(size), or 1 / |k|.
  __device__ float query_factor() const { return rsqrtf(length(0) * kHead); }
  __device__ float key_factor() const { return rsqrtf(length(4)); }
  // Four columns of what is read of the state before this row, over the warps' rows of it.
  __device__ float4 sum_of_parts(int which) const {
    float4 sum{};
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
      const float4 part = reinterpret_cast<const float4*>(parts[warp][which])[threadIdx.x % 32];
      sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
    }
    return sum;
  }
  // Four columns of u.
  __device__ float4 update(const Turn& turn) const {
    const float4 old = sum_of_parts(0), now = reinterpret_cast<const float4*>(turn.v)[threadIdx.x % 32];
    const float kept = turn.decay * key_factor(), beta = turn.beta;
    return {beta * fmaf(-kept, old.x, now.x), beta * fmaf(-kept, old.y, now.y), beta * fmaf(-kept, old.z, now.z),
            beta * fmaf(-kept, old.w, now.w)};
  }

 private:
  __device__ float length(int first) const {
    return ((squares[first] + squares[first + 1]) + (squares[first + 2] + squares[first + 3])) + 1e-6f;
  }
};

// Where input `j` of the convolution of a row lies: in a row of this pass, or in one of the context. The other index is
// that of some row, so that both can be asked for without a branch.
struct Input {
  bool inside;
  int64_t row, context;

  __device__ Input(const Single& single, int j) {
    const int64_t at = single.row - (kTaps - 1) + j;
    inside = at >= single.start;
    row = inside ? at : single.row, context = inside ? 0 : at - single.start + kTaps - 1;
  }
};
__device__ float* context_at(const DeltaView& d, const Single& single, int c) {
  return d.conv_state + int64_t{d.rows.slots[single.sequence]} * (kTaps - 1) * d.channels + c;
}
__device__ float convolved(const float4& tap, float a, float b, float c, float d) {
  return silu(fmaf(tap.w, d, fmaf(tap.z, c, fmaf(tap.y, b, tap.x * a))));
}

// A channel of a query or a key.
struct Channel {
  int c;
  float* context;
  float4 tap;
  float x[kTaps];

  __device__ Channel(const DeltaView& d, const Single& single, int channel)
      : c(channel), context(context_at(d, single, c)), tap(reinterpret_cast<const float4*>(d.conv)[c]) {}
  __device__ void prefetch(const DeltaView& d) const {
    if (threadIdx.x % 32 < kTaps - 1) prefetch_line(context - threadIdx.x % 32 + threadIdx.x % 32 * d.channels);
  }
  template <typename Q>
  __device__ void load(const DeltaView& d, const Single& single) {
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      const Input input(single, j);
      const float now = Q::load_one(d.qkv, input.row * d.qkv.stride[0] + c);
      const float past = context[input.context * d.channels];
      x[j] = input.inside ? now : past;
    }
  }
  __device__ float value() const { return convolved(tap, x[0], x[1], x[2], x[3]); }
  // For sequences of one row; those of more have `context_kernel`.
  __device__ void move_on(const DeltaView& d) const {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) context[j * d.channels] = x[j + 1];
  }
};

// Four channels of a value head, likewise.
template <typename Q>
struct Values {
  int c;
  float4* context;
  float4 taps[4];
  float4 x[kTaps];

  __device__ Values(const DeltaView& d, const Single& single, int channel)
      : c(channel), context(reinterpret_cast<float4*>(context_at(d, single, c))) {
#pragma unroll
    for (int i = 0; i < 4; ++i) taps[i] = reinterpret_cast<const float4*>(d.conv)[c + i];
  }
  __device__ void prefetch(const DeltaView& d) const {
    if (threadIdx.x % 8 < kTaps - 1) prefetch_line(context + threadIdx.x % 8 * d.channels / 4);
  }
  __device__ void load(const DeltaView& d, const Single& single) {
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      const Input input(single, j);
      const float4 now = Q::widen(Q::load(d.qkv, input.row * d.qkv.stride[0] + c));
      const float4 past = context[input.context * d.channels / 4];
      x[j] = input.inside ? now : past;
    }
  }
  __device__ float4 value() const {
    return {convolved(taps[0], x[0].x, x[1].x, x[2].x, x[3].x), convolved(taps[1], x[0].y, x[1].y, x[2].y, x[3].y),
            convolved(taps[2], x[0].z, x[1].z, x[2].z, x[3].z), convolved(taps[3], x[0].w, x[1].w, x[2].w, x[3].w)};
  }
  __device__ void move_on(const DeltaView& d) const {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) context[j * d.channels / 4] = x[j + 1];
  }
};

// A thread's part of a state: of the warp's rows, the lane's four columns.
struct Held {
  float4 rows[kOwn];

  __device__ static float4* at(float* state) {
    return reinterpret_cast<float4*>(state + threadIdx.x / 32 * kOwn * kHead) + threadIdx.x % 32;
  }
  __device__ void load(float* state) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) rows[i] = at(state)[i * kHead / 4];
  }
  __device__ void multiply(Row& row) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float4 p{}, o{};
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float q = row.q[warp * kOwn + i], k = row.k[warp * kOwn + i];
      const float4& s = rows[i];
      p.x = fmaf(k, s.x, p.x), p.y = fmaf(k, s.y, p.y), p.z = fmaf(k, s.z, p.z), p.w = fmaf(k, s.w, p.w);
      o.x = fmaf(q, s.x, o.x), o.y = fmaf(q, s.y, o.y), o.z = fmaf(q, s.z, o.z), o.w = fmaf(q, s.w, o.w);
    }
    reinterpret_cast<float4*>(row.parts[warp][0])[lane] = p;
    reinterpret_cast<float4*>(row.parts[warp][1])[lane] = o;
  }
  __device__ void store(const Row& row, const Row::Turn& turn, float* state) const {
    const float4 u = row.update(turn);
    const float decay = turn.decay, unit = row.key_factor();
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float k = unit * row.k[threadIdx.x / 32 * kOwn + i];
      const float4& s = rows[i];
      at(state)[i * kHead / 4] = {fmaf(k, u.x, decay * s.x), fmaf(k, u.y, decay * s.y), fmaf(k, u.z, decay * s.z),
                                  fmaf(k, u.w, decay * s.w)};
    }
  }
};

// The value heads of a block: [first, first + count), of one key head.
struct Heads {
  int group, first, count;

  __device__ Heads(const DeltaView& d, int each)
      : group(static_cast<int>(blockIdx.x) * each / (d.value_heads / d.key_heads)),
        first(static_cast<int>(blockIdx.x) * each),
        count(each) {}
};

// The holders' part. Blocks that share a key head form a cluster: all have read the context of its channels before the
// first one moves it on.
template <typename Q, bool kClusters>
__device__ void hold(const DeltaView& d, const Single& single, const Heads& heads, Row& row, bool few) {
  const int j = static_cast<int>(threadIdx.x) % kHead, warp = static_cast<int>(threadIdx.x) / 32;
  const bool query = threadIdx.x < kHead;
  float* state = state_of(d, single.sequence, heads.first);
  Channel key(d, single, (query ? heads.group : d.key_heads + heads.group) * kHead + j);
  if (few) {
    // Before the launches before this one have ended, that much can be had: it comes to L2.
    key.prefetch(d);
    for (int line = threadIdx.x; line < kHead * kHead / 32; line += kHolders) prefetch_line(state + line * 32);
  }
  await();
  key.load<Q>(d, single);
  Held held;
  held.load(state);
  if constexpr (kClusters) cluster_arrive();
  const float x = key.value(), squares = sum_of_warp(x * x);
  (query ? row.q : row.k)[j] = x;
  if (threadIdx.x % 32 == 0) row.squares[warp] = squares;
  if (!kClusters && single.moves) key.move_on(d);
  for (int h = 0; h < heads.count; ++h, state += kHead * kHead) {
    __syncthreads();
    held.multiply(row);
    __syncthreads();
    held.store(row, row.turns[h % 2], state);
    if (h + 1 < heads.count) held.load(state + kHead * kHead);
  }
  if constexpr (kClusters) {
    cluster_wait();
    if (single.moves && heads.first % (d.value_heads / d.key_heads) == 0) key.move_on(d);
  }
}

// The last warp's part: gates, values and outputs.
template <typename Q, bool kClusters>
__device__ void finish(const DeltaView& d, const Single& single, const Heads& heads, Row& row, bool few) {
  const int lane = threadIdx.x % 32;
  const float4 norm = reinterpret_cast<const float4*>(d.norm)[lane];
  const auto gate = [&](float x) { return d.silu_gate ? silu(x) : sigmoid(x); };
  const auto value_channel = [&](int h) { return (2 * d.key_heads + heads.first + h) * kHead + lane * 4; };
  Values<Q> values(d, single, value_channel(0));
  if (few) values.prefetch(d), prefetch_line((lane % 2 == 0 ? d.a_log : d.dt_bias) + heads.first);
  float key_query = 0;
  await();
  if constexpr (kClusters) cluster_arrive();
  for (int h = 0; h < heads.count; ++h) {
    Row::Turn& turn = row.turns[h % 2];
    const int head = heads.first + h;
    const int64_t at = int64_t{head} * kHead + lane * 4;
    if (h > 0) values = Values<Q>(d, single, value_channel(h));
    values.load(d, single);
    const auto z = Q::load(d.z, single.row * d.z.stride[0] + at);
    const View& of = lane == 0 ? d.a : d.b;  // one load for both
    const float one = get(of, single.row * of.stride[0] + head), rate = d.a_log[head], bias = d.dt_bias[head];
    const float a = __shfl_sync(kAllLanes, one, 0) + bias, b = __shfl_sync(kAllLanes, one, 1);
    const float decay = expf(-expf(rate) * (a > 20.0f ? a : log1pf(expf(a))));
    if (lane == 0) turn.decay = decay, turn.beta = sigmoid(b) * d.beta_scale;
    reinterpret_cast<float4*>(turn.v)[lane] = values.value();
    if (single.moves) values.move_on(d);
    __syncthreads();
    const float4 q = reinterpret_cast<const float4*>(row.q)[lane], k = reinterpret_cast<const float4*>(row.k)[lane];
    if (h == 0) key_query = sum_of_warp((q.x * k.x + q.y * k.y) + (q.z * k.z + q.w * k.w));
    float4 factors = Q::widen(z);
    factors = {gate(factors.x) * norm.x, gate(factors.y) * norm.y, gate(factors.z) * norm.z, gate(factors.w) * norm.w};
    __syncthreads();
    const float4 u = row.update(turn), read = row.sum_of_parts(1);
    const float unit = row.query_factor(), kept = decay * unit, kq = key_query * unit * row.key_factor();
    const float4 o{fmaf(kept, read.x, kq * u.x), fmaf(kept, read.y, kq * u.y), fmaf(kept, read.z, kq * u.z),
                   fmaf(kept, read.w, kq * u.w)};
    const float squares = sum_of_warp((o.x * o.x + o.y * o.y) + (o.z * o.z + o.w * o.w));
    const float factor = 1.0f / sqrtf(squares / kHead + d.epsilon);
    Q::store(d.out, single.row * d.out.stride[0] + at,
             {o.x * factor * factors.x, o.y * factor * factors.y, o.z * factor * factors.z, o.w * factor * factors.w});
  }
  if constexpr (kClusters) cluster_wait();
}

// A block takes `each` value heads: one, or all of a key head.
template <typename Q, bool kClusters>
__global__ void __launch_bounds__(kThreads, 2) heads_kernel(DeltaView d, bool last, int each, bool few) {
  __shared__ Row row;
  allow_next();
  const Single single = Single::of(d.rows, static_cast<int32_t>(blockIdx.y), last);
  if (!single.present) return await();
  const Heads heads(d, each);
  if (threadIdx.x < kHolders)
    hold<Q, kClusters>(d, single, heads, row, few);
  else
    finish<Q, kClusters>(d, single, heads, row, few);
}

}  // namespace

void decode_rows(Context& context, const DeltaView& d, bool last) {
  const int ratio = d.value_heads / d.key_heads;
  const bool few = int64_t{d.value_heads} * d.rows.sequences <= kFewHeads;
  const int each = few ? 1 : ratio;
  with_quads(d, [&](auto quads) {
    using Q = decltype(quads);
    start(context, each < ratio ? heads_kernel<Q, true> : heads_kernel<Q, false>,
          {.grid = dim3(static_cast<unsigned>(d.value_heads / each), static_cast<unsigned>(d.rows.sequences)),
           .block = kThreads,
           .cluster = static_cast<unsigned>(ratio / each)},
          d, last, each, few);
  });
}

}  // namespace braid::cuda
