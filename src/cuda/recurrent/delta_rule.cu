// The gated delta rule: which kernels run, and those that go row by row. On Hopper heads of 128 have the kernels of
// chunks.h. Otherwise a first kernel makes heads (convolution, unit length) and gates, a second moves the convolution's
// context on, a third walks the rows of each sequence and value head: heads of 128 with the state in registers
// (long_kernel_128, bounded by the latency of one row), other sizes a thread a column, the state in global memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/recurrent/chunks.h"

namespace braid::cuda {
namespace {

constexpr int kWarps = 8;  // of the preparing kernel

__device__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

// Channel `c` of row `row`, behind the convolution and its activation.
__device__ float convolved(const DeltaView& d, int64_t row, int32_t sequence, int64_t c) {
  float sum = 0;
  const int64_t start = d.rows.starts[sequence];
  const float* context = d.conv_state + int64_t{d.rows.slots[sequence]} * (d.taps - 1) * d.channels;
  for (int j = 0; j < d.taps; ++j) {
    const int64_t at = row - d.taps + 1 + j;
    const float x =
        at >= start ? get(d.qkv, at * d.qkv.stride[0] + c) : context[(at - start + d.taps - 1) * d.channels + c];
    sum += d.conv[c * d.taps + j] * x;
  }
  return silu(sum);
}

__global__ void prepare_kernel(DeltaView d) {
  const int lane = threadIdx.x % 32, unit = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int64_t row = blockIdx.x;
  const int32_t sequence = sequence_of(d.rows, static_cast<int32_t>(row));
  if (unit < 2 * d.key_heads + d.value_heads) {
    const bool scaled = unit < 2 * d.key_heads;
    const int size = scaled ? d.keys : d.values;
    const int64_t first = scaled ? int64_t{unit} * d.keys
                                 : 2 * int64_t{d.key_heads} * d.keys + int64_t{unit - 2 * d.key_heads} * d.values;
    float* out = d.heads + row * d.channels + first;
    float squares = 0;
    for (int i = lane; i < size; i += 32) {
      out[i] = convolved(d, row, sequence, first + i);
      squares += out[i] * out[i];
    }
    if (!scaled) return;
    float factor = 1.0f / sqrtf(sum_of_warp(squares) + 1e-6f);
    if (unit < d.key_heads) factor /= sqrtf(static_cast<float>(d.keys));
    for (int i = lane; i < size; i += 32) out[i] *= factor;
  } else {
    const int head = (unit - 2 * d.key_heads - d.value_heads) * 32 + lane;
    if (head >= d.value_heads) return;
    const float rate = -expf(d.a_log[head]);
    const float log_decay = rate * softplus(get(d.a, row * d.a.stride[0] + head) + d.dt_bias[head]);
    const float beta = sigmoid(get(d.b, row * d.b.stride[0] + head)) * d.beta_scale;
    d.gates[row * d.value_heads + head] = {log_decay, beta};
  }
}

// The newest inputs of each sequence of at least so many rows, for the rows after these.
__global__ void context_kernel(DeltaView d, int fewest) {
  const int32_t sequence = static_cast<int32_t>(blockIdx.y);
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  const int64_t start = d.rows.starts[sequence], count = d.rows.starts[sequence + 1] - start;
  if (c >= d.channels || count < fewest) return;
  float* context = d.conv_state + int64_t{d.rows.slots[sequence]} * (d.taps - 1) * d.channels + c;
  for (int64_t r = 0; r < d.taps - 1; ++r) {
    const int64_t at = count - (d.taps - 1) + r;  // in the rows of this pass
    context[r * d.channels] =
        at >= 0 ? get(d.qkv, (start + at) * d.qkv.stride[0] + c) : context[(r + count) * d.channels];
  }
}

// The rows of a sequence, heads of 128: the same numbers wherever a prompt is cut. Eight lanes share a column of the
// state, 16 rows of it each; a warp has four columns, a block 16. Rows come to shared memory 16 at a time, the next
// ones while these are walked; within them no warp waits for another. What is read of S is left in place of v, for
// `finish_kernel`. Bounded by the latency of a row.
constexpr int kLong = 128, kShareRows = 16, kStaged = 16, kColumns = 16;

struct Staged {
  float q[kStaged][kLong], k[kStaged][kLong], v[kStaged][kColumns];
  float2 gates[kStaged];

  __device__ static void copy(void* to, const void* from, int bytes) {
    const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    if (bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at), "l"(from));
  }
  // Begins the copies of `count` rows from `row` on, as one group.
  __device__ void begin(const DeltaView& d, int64_t row, int count, int head, int first_column) {
    constexpr int kQuads = kLong / 4, kAll = 2 * kQuads + kColumns / 4;
    const int group = head / (d.value_heads / d.key_heads);
    // Rows beyond the last one change nothing: zero keys, no decay, no update.
    for (int i = threadIdx.x; i < kStaged * kLong && count < kStaged; i += blockDim.x)
      if (i / kLong >= count) (&q[0][0])[i] = (&k[0][0])[i] = 0;
    for (int r = count + threadIdx.x; r < kStaged; r += blockDim.x) gates[r] = {0, 0};
    for (int i = threadIdx.x; i < (kStaged - count) * kColumns; i += blockDim.x) (&v[count][0])[i] = 0;
    for (int i = threadIdx.x; i < count * kAll; i += blockDim.x) {
      const int r = i / kAll, at = i % kAll;
      const float* heads = d.heads + (row + r) * d.channels;
      if (at < kQuads)
        copy(q[r] + 4 * at, heads + group * kLong + 4 * at, 16);
      else if (at < 2 * kQuads)
        copy(k[r] + 4 * (at - kQuads), heads + (d.key_heads + group) * kLong + 4 * (at - kQuads), 16);
      else
        copy(v[r] + 4 * (at - 2 * kQuads),
             heads + (2 * d.key_heads + head) * kLong + first_column + 4 * (at - 2 * kQuads), 16);
    }
    for (int r = threadIdx.x; r < count; r += blockDim.x)
      copy(gates + r, d.gates + (row + r) * d.value_heads + head, 8);
    asm volatile("cp.async.commit_group;" ::);
  }
};

__device__ float sum_of_eight(float value) {
  for (int offset = 4; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// One row on this lane's part of a column: what is read of the state.
__device__ float advance(float (&s)[kShareRows], const Staged& staged, int r) {
  const int part = threadIdx.x % 8;
  float k[kShareRows], q[kShareRows];
#pragma unroll
  for (int i = 0; i < kShareRows / 4; ++i) {
    const float4 of_k = *reinterpret_cast<const float4*>(staged.k[r] + i * 32 + part * 4);
    const float4 of_q = *reinterpret_cast<const float4*>(staged.q[r] + i * 32 + part * 4);
    k[4 * i] = of_k.x, k[4 * i + 1] = of_k.y, k[4 * i + 2] = of_k.z, k[4 * i + 3] = of_k.w;
    q[4 * i] = of_q.x, q[4 * i + 1] = of_q.y, q[4 * i + 2] = of_q.z, q[4 * i + 3] = of_q.w;
  }
  const float decay = expf(staged.gates[r].x);
  float sums[4] = {}, reads[4] = {};
#pragma unroll
  for (int i = 0; i < kShareRows; ++i) sums[i % 4] += k[i] * s[i];
  const float old = sum_of_eight((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const float u = staged.gates[r].y * (staged.v[r][threadIdx.x / 8] - decay * old);
#pragma unroll
  for (int i = 0; i < kShareRows; ++i) {
    s[i] = decay * s[i] + k[i] * u;
    reads[i % 4] += q[i] * s[i];
  }
  return sum_of_eight((reads[0] + reads[1]) + (reads[2] + reads[3]));
}

__global__ void __launch_bounds__(kColumns * 8) long_kernel_128(DeltaView d) {
  __shared__ Staged staged[2];
  const int head = static_cast<int>(blockIdx.x) / (kLong / kColumns), part = threadIdx.x % 8;
  const int first_column = static_cast<int>(blockIdx.x) % (kLong / kColumns) * kColumns;
  const int column = first_column + static_cast<int>(threadIdx.x) / 8;
  const int32_t sequence = static_cast<int32_t>(blockIdx.y);
  const int64_t begin = d.rows.starts[sequence], end = d.rows.starts[sequence + 1];
  if (begin == end) return;
  float* state = state_of(d, sequence, head) + column;
  const auto state_row = [&](int i) { return (i / 4 * 32 + part * 4 + i % 4) * kLong; };
  const auto count_at = [&](int64_t row) { return static_cast<int>(min(int64_t{kStaged}, end - row)); };
  float s[kShareRows];
  staged[0].begin(d, begin, count_at(begin), head, first_column);
#pragma unroll
  for (int i = 0; i < kShareRows; ++i) s[i] = state[state_row(i)];
  int half = 0;
  for (int64_t row = begin; row < end; row += kStaged, half = 1 - half) {
    const int64_t next = row + kStaged;
    if (next < end) staged[1 - half].begin(d, next, count_at(next), head, first_column);
    if (next < end)
      asm volatile("cp.async.wait_group 1;" ::);
    else
      asm volatile("cp.async.wait_group 0;" ::);
    __syncthreads();
    const int count = count_at(row);
#pragma unroll 4
    for (int r = 0; r < kStaged; ++r) {
      const float o = advance(s, staged[half], r);
      if (part == 0 && r < count) d.heads[(row + r) * d.channels + (2 * d.key_heads + head) * kLong + column] = o;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kShareRows; ++i) state[state_row(i)] = s[i];
}

// Norm and gate of what the long kernel left: a warp a row and head.
__global__ void finish_kernel(DeltaView d) {
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) * 4 + static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (head >= d.value_heads) return;
  const float* o = d.heads + row * d.channels + 2 * d.key_heads * d.keys + head * d.values;
  float squares = 0;
  for (int j = lane; j < d.values; j += 32) squares += o[j] * o[j];
  const float factor = 1.0f / sqrtf(sum_of_warp(squares) / static_cast<float>(d.values) + d.epsilon);
  for (int j = lane; j < d.values; j += 32)
    put(d.out, row * d.out.stride[0] + head * d.values + j, finished(d, o[j], factor, row, head, j));
}

// A thread a column; columns beyond the block's threads in turn.
__global__ void rows_kernel(DeltaView d) {
  extern __shared__ float outputs[];
  __shared__ float scratch[32];
  const int head = static_cast<int>(blockIdx.x), group = head / (d.value_heads / d.key_heads);
  const int32_t sequence = static_cast<int32_t>(blockIdx.y);
  float* state = state_of(d, sequence, head);
  for (int64_t row = d.rows.starts[sequence]; row < d.rows.starts[sequence + 1]; ++row) {
    const float* heads = d.heads + row * d.channels;
    const float *q = heads + group * d.keys, *k = q + d.key_heads * d.keys;
    const float* v = heads + 2 * d.key_heads * d.keys + head * d.values;
    const float2 gate = d.gates[row * d.value_heads + head];
    const float decay = expf(gate.x);
    float squares = 0;
    for (int j = threadIdx.x; j < d.values; j += blockDim.x) {
      float old = 0, o = 0;
      for (int i = 0; i < d.keys; ++i) old += k[i] * state[i * d.values + j];
      const float u = gate.y * (v[j] - decay * old);
      for (int i = 0; i < d.keys; ++i) {
        const float updated = decay * state[i * d.values + j] + k[i] * u;
        state[i * d.values + j] = updated;
        o += q[i] * updated;
      }
      outputs[j] = o;
      squares += o * o;
    }
    const float factor = 1.0f / sqrtf(sum_of_block(squares, scratch) / static_cast<float>(d.values) + d.epsilon);
    for (int j = threadIdx.x; j < d.values; j += blockDim.x)
      put(d.out, row * d.out.stride[0] + head * d.values + j, finished(d, outputs[j], factor, row, head, j));
  }
}

bool aligned(const Tensor& tensor) {
  const int64_t bytes = 4 * size_of(tensor.dtype);
  return reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(bytes) == 0 && tensor.stride(0) % 4 == 0;
}

DeltaView delta_view(const DeltaRule& op) {
  return {.out = view(op.out),
          .qkv = view(op.qkv),
          .z = view(op.z),
          .b = view(op.b),
          .a = view(op.a),
          .conv = op.conv.as<float>(),
          .a_log = op.a_log.as<float>(),
          .dt_bias = op.dt_bias.as<float>(),
          .norm = op.norm.as<float>(),
          .conv_state = op.conv_state.as<float>(),
          .state = op.state.as<float>(),
          .rows = rows_view(op.rows),
          .key_heads = op.key_heads,
          .value_heads = op.value_heads,
          .keys = static_cast<int32_t>(op.key_size()),
          .values = static_cast<int32_t>(op.value_size()),
          .taps = static_cast<int32_t>(op.conv.width()),
          .channels = static_cast<int32_t>(op.qkv.width()),
          .epsilon = op.epsilon,
          .beta_scale = op.beta_scale,
          .silu_gate = op.gate == OutputGate::Silu,
          .aligned = aligned(op.qkv) && aligned(op.z) && aligned(op.out)};
}

void launch_context(Context& context, const DeltaView& d, int fewest) {
  const dim3 grid(static_cast<unsigned>(d.channels + 255) / 256, static_cast<unsigned>(d.rows.sequences));
  if (d.taps > 1) context_kernel<<<grid, 256, 0, context.stream()>>>(d, fewest);
}

bool on_hopper() {
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major == 9;
}

// Whether the kernels for Hopper and heads of 128 serve this op.
bool on_tensor_cores(const DeltaRule& op) {
  const auto whole = [](const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0; };
  return on_hopper() && op.key_size() == kHead && op.value_size() == kHead && op.conv.width() == kTaps &&
         op.value_heads <= kMostRatio * op.key_heads && whole(op.conv) && whole(op.conv_state) && whole(op.norm) &&
         whole(op.state) && op.qkv.dtype == op.out.dtype && op.z.dtype == op.out.dtype;
}

// Parts of a sequence: none where its heads fill half of the device or its chunks are few; else so many that the
// measuring walk, two matrices of each part but the last, takes the device once.
Parts parts_of(Context& context, const DeltaView& d, int longest) {
  constexpr int kFewest = 3, kChunks = 8;
  const int64_t heads = int64_t{d.value_heads} * d.rows.sequences;
  Parts parts{.count = static_cast<int>(std::min<int64_t>(context.multiprocessors() / (4 * heads) + 1,
                                                          longest / (kChunk * kChunks)))};
  if (parts.count < kFewest) return {};
  parts.states = context.take<float>(heads * parts.count * kHead * kHead);
  parts.moves = context.take<float>(heads * parts.count * kHead * kHead);
  return parts;
}

void launch_on_tensor_cores(Context& context, const DeltaView& d, int longest) {
  decode_rows(context, d, false);
  if (longest == 1) return;
  const int64_t places = d.rows.tokens / kChunk + 2 * int64_t{d.rows.sequences};
  const ChunkTiles tiles{.heads = context.take<uint8_t>(places * d.key_heads * kHeadTiles * kTileBytes),
                         .mixes = context.take<uint8_t>(places * d.value_heads * kMixTiles * kTileBytes),
                         .decays = context.take<float>(places * d.value_heads * kDecays * kChunk)};
  prepare_chunks(context, d, tiles, places);
  walk_chunks(context, d, tiles, parts_of(context, d, longest));
  decode_rows(context, d, true);
  launch_context(context, d, 2);
}

}  // namespace

void launch(Context& context, const DeltaRule& op) {
  CHECK(op.value_heads % op.key_heads == 0 && op.state.contiguous() && op.conv_state.contiguous());
  CHECK(op.conv.contiguous() && op.conv.width() >= 1);
  if (op.rows.tokens == 0) return;
  DeltaView d = delta_view(op);
  if (on_tensor_cores(op) && context.fast()) return launch_on_tensor_cores(context, d, op.rows.longest);
  d.heads = context.take<float>(int64_t{d.rows.tokens} * d.channels);
  d.gates = context.take<float2>(int64_t{d.rows.tokens} * d.value_heads);
  const auto units = static_cast<unsigned>(2 * d.key_heads + d.value_heads + (d.value_heads + 31) / 32);
  const auto tokens = static_cast<unsigned>(d.rows.tokens), sequences = static_cast<unsigned>(d.rows.sequences);
  const dim3 grid(static_cast<unsigned>(d.value_heads), sequences);
  prepare_kernel<<<dim3(tokens, (units + kWarps - 1) / kWarps), kWarps * 32, 0, context.stream()>>>(d);
  launch_context(context, d, 1);
  if (d.keys == 128 && d.values == 128) {
    if (op.rows.longest > 1) context.say_once("cuda: the delta rule walks prompts row by row");
    long_kernel_128<<<dim3(grid.x * (kLong / kColumns), grid.y), kColumns * 8, 0, context.stream()>>>(d);
    finish_kernel<<<dim3(tokens, (grid.x + 3) / 4), 128, 0, context.stream()>>>(d);
    return;
  }
  context.say_once("cuda: heads of this size take the plain kernel of the delta rule");
  const unsigned threads = static_cast<unsigned>((std::min(d.values, 256) + 31) / 32 * 32);
  rows_kernel<<<grid, threads, static_cast<size_t>(d.values) * sizeof(float), context.stream()>>>(d);
}

}  // namespace braid::cuda
