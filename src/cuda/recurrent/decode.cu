// Single rows: sequences of one row, and the one row that a prompt may have in its first or last chunk, so that a row
// has the same bits wherever a pass begins. One kernel from the convolution to the gated output: the state comes to
// shared memory meanwhile, is read once for both of its products, o = e^lg S^T q + (k . q) u, and goes back by a bulk
// copy. Bounded by the state's traffic; three blocks a multiprocessor keep it busy.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/arrival.h"
#include "cuda/common/start.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kOwn = kHead / kWarps;
// Most heads of a launch that all begin at once.
constexpr unsigned kFewHeads = 256;

using State = float[kHead][kHead];

// What a block keeps of the row of one value head.
struct Row {
  float parts[kWarps][2][kHead];  // of S^T k and S^T q
  float heads[3][kHead];          // q, k, v
  float squares[kWarps];
  float key_query[4];
  float decay, beta;
};

// A channel's number behind convolution and activation.
struct Channel {
  float x[kTaps];

  __device__ float load(const DeltaView& d, const Single& single, int c) {
    const float* context = d.conv_state + int64_t{d.rows.slots[single.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
    for (int j = 0; j < kTaps; ++j) {
      const int64_t at = single.row - (kTaps - 1) + j;
      x[j] = at >= single.start ? get(d.qkv, at * d.qkv.stride[0] + c)
                                : context[(at - single.start + kTaps - 1) * d.channels];
    }
    const float4 tap = reinterpret_cast<const float4*>(d.conv)[c];
    return silu(fmaf(tap.w, x[3], fmaf(tap.z, x[2], fmaf(tap.y, x[1], tap.x * x[0]))));
  }
  // For sequences of one row; those of more have `context_kernel`.
  __device__ void move_on(const DeltaView& d, const Single& single, int c) const {
    float* context = d.conv_state + int64_t{d.rows.slots[single.sequence]} * (kTaps - 1) * d.channels + c;
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) context[j * d.channels] = x[j + 1];
  }
};

// The half of the block's threads that this one is of, and its channel there.
struct Part {
  bool second = threadIdx.x >= kHead;
  int j = static_cast<int>(threadIdx.x) % kHead;
};

// q by the first half of the threads, k by the second, of unit length; and k . q.
__device__ void make_keys(Row& row, float x) {
  const Part part;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float squares = sum_of_warp(x * x);
  if (lane == 0) row.squares[warp] = squares;
  __syncthreads();
  const float* of = row.squares + (part.second ? 4 : 0);
  const float length = sqrtf(((of[0] + of[1]) + (of[2] + of[3])) + 1e-6f);
  row.heads[part.second ? 1 : 0][part.j] = part.second ? x / length : x / length / sqrtf(static_cast<float>(kHead));
  __syncthreads();
  if (warp >= 4) return;
  const float product = sum_of_warp(row.heads[0][part.j] * row.heads[1][part.j]);
  if (lane == 0) row.key_query[warp] = product;
}

__device__ void make_gates(const DeltaView& d, const Single& single, int head, Row& row) {
  const float a = get(d.a, single.row * d.a.stride[0] + head) + d.dt_bias[head];
  row.decay = expf(-expf(d.a_log[head]) * (a > 20.0f ? a : log1pf(expf(a))));
  row.beta = sigmoid(get(d.b, single.row * d.b.stride[0] + head)) * d.beta_scale;
}

// Four columns of what is read of the state before this row, over the warps' rows of it.
__device__ float4 sum_of_parts(const Row& row, int which) {
  float4 sum{};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const float4 part = reinterpret_cast<const float4*>(row.parts[warp][which])[threadIdx.x % 32];
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  return sum;
}

__device__ void multiply_state(Row& row, const State& state) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float4 p{}, o{};
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int r = warp * kOwn + i;
    const float q = row.heads[0][r], k = row.heads[1][r];
    const float4 s = reinterpret_cast<const float4*>(state[r])[lane];
    p.x = fmaf(k, s.x, p.x), p.y = fmaf(k, s.y, p.y), p.z = fmaf(k, s.z, p.z), p.w = fmaf(k, s.w, p.w);
    o.x = fmaf(q, s.x, o.x), o.y = fmaf(q, s.y, o.y), o.z = fmaf(q, s.z, o.z), o.w = fmaf(q, s.w, o.w);
  }
  reinterpret_cast<float4*>(row.parts[warp][0])[lane] = p;
  reinterpret_cast<float4*>(row.parts[warp][1])[lane] = o;
}

// The new state in place of the old one; returns this lane's columns of u.
__device__ float4 update_state(const Row& row, State& state) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float4 old = sum_of_parts(row, 0), now = reinterpret_cast<const float4*>(row.heads[2])[lane];
  const float decay = row.decay, beta = row.beta;
  const float4 u{beta * fmaf(-decay, old.x, now.x), beta * fmaf(-decay, old.y, now.y),
                 beta * fmaf(-decay, old.z, now.z), beta * fmaf(-decay, old.w, now.w)};
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int r = warp * kOwn + i;
    const float k = row.heads[1][r];
    float4& s = reinterpret_cast<float4*>(state[r])[lane];
    s = {fmaf(k, u.x, decay * s.x), fmaf(k, u.y, decay * s.y), fmaf(k, u.z, decay * s.z), fmaf(k, u.w, decay * s.w)};
  }
  publish_to_copies();
  return u;
}

// A warp norms, gates and writes the head's outputs.
template <typename Q>
__device__ void write_output(const DeltaView& d, const Row& row, int64_t of_row, int head, float4 u) {
  const int lane = threadIdx.x % 32;
  const float4 read = sum_of_parts(row, 1);
  const float decay = row.decay, kq = (row.key_query[0] + row.key_query[1]) + (row.key_query[2] + row.key_query[3]);
  const float o[4] = {fmaf(decay, read.x, kq * u.x), fmaf(decay, read.y, kq * u.y), fmaf(decay, read.z, kq * u.z),
                      fmaf(decay, read.w, kq * u.w)};
  const float squares = sum_of_warp(o[0] * o[0] + o[1] * o[1] + o[2] * o[2] + o[3] * o[3]);
  const float factor = 1.0f / sqrtf(squares / kHead + d.epsilon);
  const int64_t at = int64_t{head} * kHead + lane * 4;
  const float4 norm = reinterpret_cast<const float4*>(d.norm)[lane];
  const float4 z = Q::widen(Q::load(d.z, of_row * d.z.stride[0] + at));
  const auto gate = [&](float x) { return d.silu_gate ? silu(x) : sigmoid(x); };
  Q::store(d.out, of_row * d.out.stride[0] + at,
           {o[0] * factor * norm.x * gate(z.x), o[1] * factor * norm.y * gate(z.y), o[2] * factor * norm.z * gate(z.z),
            o[3] * factor * norm.w * gate(z.w)});
}

// What comes before the state is there, of one value head.
struct Inputs {
  Channel unit, value;
  int unit_channel, value_channel;
  float x = 0, v = 0;

  __device__ Inputs(const DeltaView& d, const Single& single, int head) {
    const Part part;
    const int group = head / (d.value_heads / d.key_heads);
    unit_channel = (part.second ? d.key_heads + group : group) * kHead + part.j;
    value_channel = (2 * d.key_heads + head) * kHead + part.j;
    x = unit.load(d, single, unit_channel);
    if (!part.second) v = value.load(d, single, value_channel);
  }
};

struct Shared {
  State state;
  Row row;
  uint64_t filled;
};

// A block a value head. The blocks of one key head form a cluster, since they share the context of its channels: all
// have read it before one moves it on.
template <typename Q>
__global__ void __launch_bounds__(kThreads, 3) head_kernel(DeltaView d, bool last) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int head = static_cast<int>(blockIdx.x), ratio = d.value_heads / d.key_heads;
  const Single single = Single::of(d.rows, static_cast<int32_t>(blockIdx.y), last);
  float* state = state_of(d, single.sequence, head);
  // The launch before may still be writing what this one reads, but the state of few heads can come to L2 meanwhile.
  const bool few = gridDim.x * gridDim.y <= kFewHeads;
  if (threadIdx.x == 0 && single.present && few) bulk_prefetch(state, sizeof(State));
  await();
  if (!single.present) return;
  if (threadIdx.x == 0) {
    barrier_init(&shared.filled, 1);
    barriers_made();
    barrier_expect(&shared.filled, sizeof(State));
    bulk_copy(shared.state, state, sizeof(State), &shared.filled);
  }
  const Inputs in(d, single, head);
  cluster_arrive();
  if (threadIdx.x == kThreads - 1) make_gates(d, single, head, shared.row);
  if (!Part{}.second) shared.row.heads[2][Part{}.j] = in.v;
  __syncwarp();
  make_keys(shared.row, in.x);
  barrier_wait(&shared.filled, 0);
  allow_next();  // not before: it would take the memory's time from the states
  multiply_state(shared.row, shared.state);
  __syncthreads();
  const float4 u = update_state(shared.row, shared.state);
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(state, shared.state, sizeof(State));
  if (threadIdx.x < 32) write_output<Q>(d, shared.row, single.row, head, u);
  __syncwarp();
  cluster_wait();
  if (single.moves && head % ratio == 0) in.unit.move_on(d, single, in.unit_channel);
  if (single.moves && !Part{}.second) in.value.move_on(d, single, in.value_channel);
  if (threadIdx.x == 0) wait_for_stores();
}

}  // namespace

void decode_rows(Context& context, const DeltaView& d, bool last) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  with_quads(d, [&](auto quads) {
    const auto kernel = head_kernel<decltype(quads)>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "shared memory");
    start(context, kernel,
          {.grid = dim3(static_cast<unsigned>(d.value_heads), static_cast<unsigned>(d.rows.sequences)),
           .block = kThreads,
           .shared = kBytes,
           .cluster = static_cast<unsigned>(d.value_heads / d.key_heads)},
          d, last);
  });
}

}  // namespace braid::cuda
