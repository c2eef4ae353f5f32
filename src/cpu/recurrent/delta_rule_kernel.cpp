// Gated delta rule. A work item is one sequence and one key head with the value heads that read it, from its
// convolution to its gated output, so that every channel's window and every state is read and written once. The rows of
// a run are cut at absolute multiples of kChunkRows; a piece of several rows takes the chunk form, a short one the
// token form. Where there are fewer items than members, the value heads of a long run are items of their own, each of
// which convolves q and k again.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "cpu/dispatch/functions.h"
#include "cpu/recurrent/chunk_form.h"
#include "cpu/recurrent/convolution.h"
#include "cpu/recurrent/token_form.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// From this many rows of a chunk on, the chunk form is faster. The choice rests on the piece alone, so that a sequence
// computes the same bits in any company.
constexpr int64_t kShortestChunk = 5;

struct Buffers {
  Segment segment;
  ChunkProducts products;
};

// Lays the buffers out in memory from `base`; returns the floats needed.
int64_t lay_out(const DeltaRule& op, float* base, Buffers& buffers) {
  Segment& segment = buffers.segment;
  ChunkProducts& products = buffers.products;
  segment.key_size = op.key_size(), segment.value_size = op.value_size();
  segment.key_stride = padded_stride(op.key_size()), segment.value_stride = padded_stride(op.value_size());
  int64_t used = 0;
  const auto take = [&](int64_t count) {
    float* at = base == nullptr ? nullptr : base + used;  // none: only the sizes are wanted
    used += round_up(count, 16);
    return at;
  };
  segment.q = take(kChunkRows * segment.key_stride), segment.k = take(kChunkRows * segment.key_stride);
  segment.v = take(kChunkRows * segment.value_stride), segment.o = take(kChunkRows * segment.value_stride);
  segment.beta = take(kChunkRows), segment.decay = take(kChunkRows);
  products.k_columns = take(op.key_size() * kChunkStride);
  products.kk = take(kChunkRows * kChunkStride), products.qk = take(kChunkRows * kChunkStride);
  products.lower = take(kChunkRows * kChunkStride), products.mix = take(kChunkRows * kChunkStride);
  products.since_start = take(kChunkRows), products.to_end = take(kChunkRows);
  products.d = take(kChunkRows * kTileWidth);
  products.part = take(round_up(op.key_size(), kTileHeight) * kTileWidth);
  return used;
}

void clear(float* data, int64_t count) {
  for (int64_t i = 0; i < count; ++i) data[i] = 0.0f;
}

// Scales each row to length one, then by `scale`.
void normalise(const Segment& segment, float* rows, float scale) {
  for (int64_t i = 0; i < segment.rows; ++i) {
    float* row = rows + i * segment.key_stride;
    const Vec factor = splat(scale / sqrtf(dot(row, row, segment.key_size) + 1e-6f));
    for (int64_t c = 0; c < segment.key_size; c += kLanes) store(row + c, factor * load(row + c));
  }
}

// One work item: a run, a key head, and value heads [head, end) that read it.
struct Item {
  const DeltaRule& op;
  Run run;
  int64_t key_head = 0;
  int64_t head = 0, end = 0;

  Channels query_channels() const { return {key_head * op.key_size(), op.key_size()}; }
  Channels key_channels() const { return {(op.key_heads + key_head) * op.key_size(), op.key_size()}; }
  Channels value_channels(int64_t head) const {
    return {2 * op.key_heads * op.key_size() + head * op.value_size(), op.value_size()};
  }
};

void compute_gates(const Item& item, int64_t head, int64_t start, const Segment& segment) {
  const DeltaRule& op = item.op;
  const float rate = -expf(op.a_log.as<float>()[head]), bias = op.dt_bias.as<float>()[head];
  for (int64_t i = 0; i < segment.rows; ++i) {
    const int64_t row = item.run.first + start + i;
    const float x = op.a.row<float>(row)[head] + bias;
    const float softplus = x > 20.0f ? x : log1pf(expf(x));
    segment.decay[i] = expf(rate * softplus);
    segment.beta[i] = op.beta_scale / (1.0f + expf(-op.b.row<float>(row)[head]));
  }
  for (int64_t i = segment.rows; i < segment.padded_rows(); ++i) segment.beta[i] = 0.0f;
}

Vec gate_of(OutputGate gate, Vec z) { return gate == OutputGate::Silu ? z * logistic(z) : logistic(z); }

// out = rms(o) * norm * gate(z) for the segment's rows.
void write_output(const Item& item, int64_t head, int64_t start, const Segment& segment) {
  const DeltaRule& op = item.op;
  const int64_t size = segment.value_size;
  for (int64_t i = 0; i < segment.rows; ++i) {
    const float* o = segment.o + i * segment.value_stride;
    const float* z = op.z.row<float>(item.run.first + start + i) + head * size;
    float* out = op.out.row<float>(item.run.first + start + i) + head * size;
    const float* norm = op.norm.as<float>();
    const Vec scale = splat(1.0f / sqrtf(dot(o, o, size) / static_cast<float>(size) + op.epsilon));
    for (int64_t c = 0; c < size; c += kLanes) {
      const int64_t left = size - c;
      store_as(out + c, scale * load(o + c) * load_as(norm + c, left) * gate_of(op.gate, load_as(z + c, left)), left);
    }
  }
}

// Zeros beyond what the convolution wrote, up to whole tiles.
void pad(const Segment& segment) {
  const int64_t written = round_up(segment.value_size, kLanes), padded = round_up(segment.value_size, kTileWidth);
  for (int64_t i = 0; i < segment.rows; ++i) clear(segment.v + i * segment.value_stride + written, padded - written);
  for (int64_t i = segment.rows; i < segment.padded_rows(); ++i) clear(segment.v + i * segment.value_stride, padded);
}

void run_segment(const Item& item, int64_t start, const Buffers& buffers) {
  const DeltaRule& op = item.op;
  const Segment& segment = buffers.segment;
  const Convolution convolution(op, item.run);
  convolution.rows(item.query_channels(), start, segment.rows, {segment.q, segment.key_stride});
  convolution.rows(item.key_channels(), start, segment.rows, {segment.k, segment.key_stride});
  normalise(segment, segment.q, 1.0f / sqrtf(static_cast<float>(segment.key_size)));
  normalise(segment, segment.k, 1.0f);
  const bool chunk_form = segment.rows >= kShortestChunk;
  if (chunk_form) {
    const int64_t missing = segment.padded_rows() - segment.rows;
    clear(segment.q + segment.rows * segment.key_stride, missing * segment.key_stride);
    clear(segment.k + segment.rows * segment.key_stride, missing * segment.key_stride);
    multiply_keys(segment, buffers.products);
  }
  for (int64_t head = item.head; head < item.end; ++head) {
    convolution.rows(item.value_channels(head), start, segment.rows, {segment.v, segment.value_stride});
    compute_gates(item, head, start, segment);
    float* state = op.state.row<float>(item.run.slot) + head * segment.key_size * segment.value_size;
    if (chunk_form) {
      pad(segment);
      run_chunk_form(segment, buffers.products, state);
    } else {
      run_token_form(segment, state);
    }
    write_output(item, head, start, segment);
  }
}

void run_item(const Item& item, Buffers& buffers) {
  for (int64_t start = 0; start < item.run.rows; start += buffers.segment.rows) {
    const int64_t to_border = kChunkRows - (item.run.position + start) % kChunkRows;
    const int64_t left = item.run.rows - start;
    buffers.segment.rows = left < to_border ? left : to_border;
    run_segment(item, start, buffers);
  }
}

// Keeps the inputs that the next pass convolves; nobody may still read the present ones.
void keep_window(const Item& item) {
  const Convolution convolution(item.op, item.run);
  convolution.keep(item.query_channels());
  convolution.keep(item.key_channels());
  for (int64_t head = item.head; head < item.end; ++head) convolution.keep(item.value_channels(head));
}

// Item `index` of those with `heads` value heads each.
Item item_at(const DeltaRule& op, int64_t index, int64_t heads) {
  const int64_t items = op.value_heads / heads, sequence = index / items, head = index % items * heads;
  const int32_t* starts = op.rows.starts.as<int32_t>();
  Item item{.op = op, .key_head = head / (op.value_heads / op.key_heads), .head = head, .end = head + heads};
  item.run = {.first = starts[sequence], .rows = starts[sequence + 1] - starts[sequence]};
  item.run.slot = op.rows.slots.as<int32_t>()[sequence];
  if (item.run.rows > 0) item.run.position = op.rows.positions.as<int32_t>()[item.run.first];
  return item;
}

}  // namespace

void delta_rule(const DeltaRule& op, const Share& share) {
  Buffers buffers;
  const int64_t floats = lay_out(op, nullptr, buffers);
  lay_out(op, reinterpret_cast<float*>(share.workspace(static_cast<size_t>(floats) * sizeof(float))), buffers);
  const int64_t ratio = op.value_heads / op.key_heads;
  const int64_t groups = int64_t{op.rows.sequences} * op.key_heads;
  const bool apart = groups < share.members && op.rows.tokens >= kChunkRows;
  const int64_t items = apart ? groups * ratio : groups;
  for (int64_t index = share.take(items); index >= 0; index = share.take(items)) {
    const Item item = item_at(op, index, apart ? 1 : ratio);
    run_item(item, buffers);
    if (!apart) keep_window(item);
  }
  if (!apart) return;
  share.barrier();
  for (int64_t index = share.take(groups); index >= 0; index = share.take(groups))
    keep_window(item_at(op, index, ratio));
}

}  // namespace braid::cpu::BRAID_ISA
