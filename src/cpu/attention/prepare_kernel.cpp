// Query and key heads: norm, rotary positions, and keys and values into the cache. A work item is one row and one head
// of the cache with the query heads that read it. Bound by memory traffic and, for few heads, by the sines.
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "cpu/attention/pages.h"
#include "cpu/attention/rotation.h"
#include "cpu/dispatch/functions.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// One head's numbers on their way, and the row's angles.
struct Scratch {
  float* head;
  float* cosines;
  float* sines;
};

int64_t pairs_of(const PrepareHeads& op) { return op.rope.frequencies ? op.rope.frequencies.size(0) : 0; }

void make_ready(const PrepareHeads& op, const Tensor& norm, const Scratch& scratch) {
  const int64_t size = op.q.size(2);
  if (norm) {
    const float mean = dot(scratch.head, scratch.head, size) / static_cast<float>(size);
    const Vec scale = splat(1.0f / sqrtf(mean + op.epsilon));
    for (int64_t i = 0; i < size; i += kLanes) {
      const Vec x = load_as(scratch.head + i, size - i) * scale * load_as(norm.as<float>() + i, size - i);
      store_as(scratch.head + i, x, size - i);
    }
  }
  if (const int64_t pairs = pairs_of(op); pairs > 0) rotate(scratch.head, scratch.cosines, scratch.sines, pairs);
}

int64_t offset_of(const Tensor& heads, int64_t row, int64_t head) {
  return row * heads.stride(0) + head * heads.stride(1);
}

void prepare(const PrepareHeads& op, int64_t row, int64_t head, const Scratch& scratch) {
  const int64_t size = op.q.size(2), ratio = op.q.size(1) / op.k.size(1);
  const int64_t position = op.rows.positions.as<int32_t>()[row], sequence = sequence_of(op.rows, row);
  if (const int64_t pairs = pairs_of(op); pairs > 0)
    fill_angles(op.rope.frequencies.as<float>(), pairs, static_cast<float>(position), op.rope.scale, scratch.cosines,
                scratch.sines);
  for (int64_t h = head * ratio; h < (head + 1) * ratio; ++h) {
    read_row(op.q, offset_of(op.q, row, h), size, scratch.head);
    make_ready(op, op.q_norm, scratch);
    write_row(op.q, offset_of(op.q, row, h), size, scratch.head);
  }
  const int32_t* table = op.cache.table.row<int32_t>(sequence);
  read_row(op.k, offset_of(op.k, row, head), size, scratch.head);
  make_ready(op, op.k_norm, scratch);
  write_row(op.cache.keys, HeadPages{&op.cache.keys, table, head}.offset(position), size, scratch.head);
  read_row(op.v, offset_of(op.v, row, head), size, scratch.head);
  write_row(op.cache.values, HeadPages{&op.cache.values, table, head}.offset(position), size, scratch.head);
}

}  // namespace

void prepare_heads(const PrepareHeads& op, const Share& share) {
  const int64_t size = round_up(op.q.size(2), 16), heads = op.k.size(1);
  float* floats = reinterpret_cast<float*>(share.workspace(static_cast<size_t>(3 * size) * sizeof(float)));
  const Scratch scratch{floats, floats + size, floats + 2 * size};
  const int64_t items = op.q.size(0) * heads;
  for (int64_t item = share.take(items); item >= 0; item = share.take(items))
    prepare(op, item / heads, item % heads, scratch);
}

}  // namespace braid::cpu::BRAID_ISA
