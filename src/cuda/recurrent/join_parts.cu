// The states before all parts of a sequence, from the first one's: S <- M S + N over the parts in order, in f32. A
// block has eight columns of a state; the matrices come to shared memory ahead.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/common/start.h"
#include "cuda/recurrent/walk.h"

namespace braid::cuda {
namespace {

constexpr int kThreads = 256, kOwn = 8, kAhead = 3;

struct JoinMemory {
  float moves[kAhead][kHead][kHead];
  float state[2][kHead][kOwn];
  uint64_t filled[kAhead];
};

__global__ void __launch_bounds__(kThreads, 1) join_kernel(DeltaView d, Parts parts) {
  extern __shared__ __align__(1024) uint8_t memory[];
  JoinMemory& shared = *reinterpret_cast<JoinMemory*>(memory);
  await_earlier();
  const int head = static_cast<int>(blockIdx.x) / (kHead / kOwn), first = static_cast<int>(blockIdx.x) % (kHead / kOwn);
  const auto sequence = static_cast<int32_t>(blockIdx.y);
  const Run run = Run::of(d.rows, sequence);
  if (run.chunks() == 0) return;
  const int each = parts.each(run), moves = (run.chunks() + each - 1) / each - 1;
  const auto fill = [&](int part) {
    if (threadIdx.x != 0 || part >= moves) return;
    barrier_expect(&shared.filled[part % kAhead], kHead * kHead * 4);
    bulk_copy(shared.moves[part % kAhead], parts.moves + parts.at(d, sequence, head, part), kHead * kHead * 4,
              &shared.filled[part % kAhead]);
  };
  if (threadIdx.x == 0)
    for (uint64_t& barrier : shared.filled) barrier_init(&barrier, 1);
  __syncthreads();
  for (int part = 0; part < kAhead; ++part) fill(part);
  const int row = threadIdx.x % kHead, quad = threadIdx.x / kHead * 4, at = row * kHead + first * kOwn + quad;
  float4 state = *reinterpret_cast<const float4*>(state_of(d, sequence, head) + at);
  *reinterpret_cast<float4*>(parts.states + parts.at(d, sequence, head, 0) + at) = state;
  for (int part = 0; part < moves; ++part) {
    *reinterpret_cast<float4*>(&shared.state[part % 2][row][quad]) = state;
    float* next = parts.states + parts.at(d, sequence, head, part + 1) + at;
    state = *reinterpret_cast<const float4*>(next);
    __syncthreads();
    barrier_wait(&shared.filled[part % kAhead], part / kAhead % 2);
#pragma unroll 8
    for (int k = 0; k < kHead; ++k) {
      const float m = shared.moves[part % kAhead][k][row];
      const float4 s = *reinterpret_cast<const float4*>(&shared.state[part % 2][k][quad]);
      state.x = fmaf(m, s.x, state.x), state.y = fmaf(m, s.y, state.y);
      state.z = fmaf(m, s.z, state.z), state.w = fmaf(m, s.w, state.w);
    }
    *reinterpret_cast<float4*>(next) = state;
    if (part + kAhead < moves) {
      __syncthreads();
      fill(part + kAhead);
    }
  }
}

}  // namespace

void join_parts(Context& context, const DeltaView& d, const Parts& parts) {
  constexpr int kBytes = static_cast<int>(sizeof(JoinMemory));
  check(cudaFuncSetAttribute(join_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "shared memory");
  start(context, join_kernel,
        {.grid = dim3(static_cast<unsigned>(d.value_heads * (kHead / kOwn)), static_cast<unsigned>(d.rows.sequences)),
         .block = kThreads,
         .shared = kBytes},
        d, parts);
}

}  // namespace braid::cuda
