// One row of a sequence in one kernel, a block a value head: the state comes to shared memory while the convolution,
// the lengths and the gates are made, is read once for both of its products, o = e^lg S^T q + (k . q) u, and goes back
// by a bulk copy. The blocks of one key head form a cluster, since they share the context of its channels: all have
// read it before one moves it on. Bounded by the state's traffic; three blocks a multiprocessor keep it busy.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/recurrent/arrival.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kOwn = kHead / kWarps;

struct Shared {
  float state[kHead][kHead];
  float parts[kWarps][2][kHead];  // of S^T k and S^T q
  float row[3][kHead];            // q, k, v
  float squares[kWarps];
  float key_query[4];
  float decay, beta;
  uint64_t filled;
};

// A channel's number behind convolution and activation, with its context in registers.
struct Channel {
  float x[kTaps];

  __device__ float load(const DeltaView& d, int64_t row, const float* context, int c) {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) x[j] = context[j * d.channels + c];
    x[kTaps - 1] = get(d.qkv, row * d.qkv.stride[0] + c);
    const float4 tap = reinterpret_cast<const float4*>(d.conv)[c];
    return silu(fmaf(tap.w, x[3], fmaf(tap.z, x[2], fmaf(tap.y, x[1], tap.x * x[0]))));
  }
  __device__ void move_on(const DeltaView& d, float* context, int c) const {
#pragma unroll
    for (int j = 0; j < kTaps - 1; ++j) context[j * d.channels + c] = x[j + 1];
  }
};

// Four columns of what is read of the state before this row, over the warps' rows of it.
__device__ float4 sum_of_parts(const Shared& shared, int which, int lane) {
  float4 sum{};
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const float4 part = reinterpret_cast<const float4*>(shared.parts[warp][which])[lane];
    sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
  }
  return sum;
}

__device__ void multiply_state(Shared& shared, int warp, int lane) {
  float4 p{}, o{};
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int r = warp * kOwn + i;
    const float q = shared.row[0][r], k = shared.row[1][r];
    const float4 s = reinterpret_cast<const float4*>(shared.state[r])[lane];
    p.x = fmaf(k, s.x, p.x), p.y = fmaf(k, s.y, p.y), p.z = fmaf(k, s.z, p.z), p.w = fmaf(k, s.w, p.w);
    o.x = fmaf(q, s.x, o.x), o.y = fmaf(q, s.y, o.y), o.z = fmaf(q, s.z, o.z), o.w = fmaf(q, s.w, o.w);
  }
  reinterpret_cast<float4*>(shared.parts[warp][0])[lane] = p;
  reinterpret_cast<float4*>(shared.parts[warp][1])[lane] = o;
}

template <typename Q>
__device__ void write_output(const DeltaView& d, const Shared& shared, int64_t row, int head, float4 u) {
  const int lane = threadIdx.x % 32;
  const float4 read = sum_of_parts(shared, 1, lane);
  const float decay = shared.decay;
  const float kq = (shared.key_query[0] + shared.key_query[1]) + (shared.key_query[2] + shared.key_query[3]);
  const float o[4] = {fmaf(decay, read.x, kq * u.x), fmaf(decay, read.y, kq * u.y), fmaf(decay, read.z, kq * u.z),
                      fmaf(decay, read.w, kq * u.w)};
  const float squares = sum_of_warp(o[0] * o[0] + o[1] * o[1] + o[2] * o[2] + o[3] * o[3]);
  const float factor = 1.0f / sqrtf(squares / kHead + d.epsilon);
  const int64_t at = int64_t{head} * kHead + lane * 4;
  const float4 norm = reinterpret_cast<const float4*>(d.norm)[lane];
  const float4 z = Q::widen(Q::load(d.z, row * d.z.stride[0] + at));
  const auto gate = [&](float x) { return d.silu_gate ? silu(x) : sigmoid(x); };
  Q::store(d.out, row * d.out.stride[0] + at,
           {o[0] * factor * norm.x * gate(z.x), o[1] * factor * norm.y * gate(z.y), o[2] * factor * norm.z * gate(z.z),
            o[3] * factor * norm.w * gate(z.w)});
}

template <typename Q>
__global__ void __launch_bounds__(kThreads, 3) decode_kernel(DeltaView d) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = static_cast<int>(blockIdx.x);
  const int32_t sequence = static_cast<int32_t>(blockIdx.y);
  const int64_t row = d.rows.starts[sequence];
  if (d.rows.starts[sequence + 1] - row != 1) return;
  float* state = state_of(d, sequence, head);
  if (threadIdx.x == 0) {
    barrier_init(&shared.filled, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    barrier_expect(&shared.filled, sizeof(shared.state));
    bulk_copy(shared.state, state, sizeof(shared.state), &shared.filled);
  }
  const int ratio = d.value_heads / d.key_heads, group = head / ratio;
  float* context = d.conv_state + int64_t{d.rows.slots[sequence]} * (kTaps - 1) * d.channels;
  // The first half of the threads makes q, then v, the second half k and the gates.
  const bool keys = threadIdx.x >= kHead;
  const int j = static_cast<int>(threadIdx.x) % kHead;
  const int shared_channel = (keys ? d.key_heads + group : group) * kHead + j;
  const int value_channel = (2 * d.key_heads + head) * kHead + j;
  Channel unit, value;
  const float x = unit.load(d, row, context, shared_channel);
  const float v = keys ? 0.0f : value.load(d, row, context, value_channel);
  cluster_arrive();
  if (threadIdx.x == kThreads - 1) {
    const float a = get(d.a, row * d.a.stride[0] + head) + d.dt_bias[head];
    shared.decay = expf(-expf(d.a_log[head]) * (a > 20.0f ? a : log1pf(expf(a))));
    shared.beta = sigmoid(get(d.b, row * d.b.stride[0] + head)) * d.beta_scale;
  }
  const float squares = sum_of_warp(x * x);
  if (lane == 0) shared.squares[warp] = squares;
  __syncthreads();
  const float* of = shared.squares + (keys ? 4 : 0);
  const float length = sqrtf(((of[0] + of[1]) + (of[2] + of[3])) + 1e-6f);
  shared.row[keys ? 1 : 0][j] = keys ? x / length : x / length / sqrtf(static_cast<float>(kHead));
  if (!keys) shared.row[2][j] = v;
  __syncthreads();
  if (warp < 4) {
    const float product = sum_of_warp(shared.row[0][j] * shared.row[1][j]);
    if (lane == 0) shared.key_query[warp] = product;
  }
  barrier_wait(&shared.filled, 0);
  multiply_state(shared, warp, lane);
  __syncthreads();
  const float4 old = sum_of_parts(shared, 0, lane);
  const float4 now = reinterpret_cast<const float4*>(shared.row[2])[lane];
  const float decay = shared.decay, beta = shared.beta;
  const float4 u{beta * fmaf(-decay, old.x, now.x), beta * fmaf(-decay, old.y, now.y),
                 beta * fmaf(-decay, old.z, now.z), beta * fmaf(-decay, old.w, now.w)};
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int r = warp * kOwn + i;
    const float k = shared.row[1][r];
    float4& s = reinterpret_cast<float4*>(shared.state[r])[lane];
    s = {fmaf(k, u.x, decay * s.x), fmaf(k, u.y, decay * s.y), fmaf(k, u.z, decay * s.z), fmaf(k, u.w, decay * s.w)};
  }
  publish_to_copies();
  __syncthreads();
  if (threadIdx.x == 0) bulk_store(state, shared.state, sizeof(shared.state));
  if (warp == 0) write_output<Q>(d, shared, row, head, u);
  __syncwarp();
  cluster_wait();
  if (head % ratio == 0) unit.move_on(d, context, shared_channel);
  if (!keys) value.move_on(d, context, value_channel);
  if (threadIdx.x == 0) wait_for_stores();
}

}  // namespace

void decode_rows(cudaStream_t stream, const DeltaView& d) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  cudaLaunchAttribute cluster{.id = cudaLaunchAttributeClusterDimension};
  cluster.val.clusterDim = {static_cast<unsigned>(d.value_heads / d.key_heads), 1, 1};
  const cudaLaunchConfig_t config{
      .gridDim = dim3(static_cast<unsigned>(d.value_heads), static_cast<unsigned>(d.rows.sequences)),
      .blockDim = dim3(kThreads),
      .dynamicSmemBytes = kBytes,
      .stream = stream,
      .attrs = &cluster,
      .numAttrs = 1};
  with_quads(d, [&](auto quads) {
    const auto kernel = decode_kernel<decltype(quads)>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    cudaLaunchKernelEx(&config, kernel, d);
  });
}

}  // namespace braid::cuda
