// Softmax attention over pages. A work item is a block of query rows and one head of the cache; where that gives the
// team too little to share, also one of the pieces of kPiece keys, and the pieces are merged afterwards. Pieces are
// absolute, and every item goes through them in the same way, so that the bits of a sequence's rows depend on nothing
// but these rows and their keys. Bound by the reading of keys and values for single rows, by multiply-adds for blocks.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/one_position.h"
#include "cpu/dispatch/functions.h"
#include "ops/attention.h"

namespace braid::cpu::BRAID_ISA {
namespace {

constexpr int64_t kPiece = 256;
constexpr int64_t kQueryRows = 64;  // rows of a block, query heads included
constexpr int64_t kMostSplit = 32;  // more rows than these are never split over keys

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How the op is cut into items; every member computes the same.
struct Cut {
  int64_t heads = 0, ratio = 0;  // heads of the cache, query heads of each
  int64_t positions = 0;         // of a block
  int64_t blocks = 0;            // of all sequences
  int64_t pieces = 1;            // of keys; 1: an item takes all
  int64_t record = 0;            // floats of a partial result: values, largest, sum
};

int64_t rows_of(const Rows& rows, int64_t sequence) {
  return rows.starts.as<int32_t>()[sequence + 1] - rows.starts.as<int32_t>()[sequence];
}

int64_t last_position(const Rows& rows) {
  int64_t last = 0;
  for (int64_t s = 0; s < rows.sequences; ++s) {
    if (rows_of(rows, s) == 0) continue;
    const int64_t position = rows.positions.as<int32_t>()[rows.starts.as<int32_t>()[s + 1] - 1];
    last = position > last ? position : last;
  }
  return last;
}

Cut cut_up(const PagedAttention& op, int members) {
  Cut cut;
  cut.heads = op.cache.keys.size(2), cut.ratio = op.q.size(1) / cut.heads;
  cut.positions = cut.ratio >= kQueryRows ? 1 : kQueryRows / cut.ratio;
  for (int64_t s = 0; s < op.rows.sequences; ++s) cut.blocks += divide_up(rows_of(op.rows, s), cut.positions);
  if (members > 1 && cut.blocks * cut.heads < 2 * members && op.rows.tokens <= kMostSplit)
    cut.pieces = last_position(op.rows) / kPiece + 1;
  cut.record = round_up(op.q.size(2), kTileWidth) + 16;
  return cut;
}

// Goes through the blocks from the last to the first; an item's block is at or before the last one's.
struct Cursor {
  const Rows& rows;
  int64_t positions;         // of a block
  int64_t sequence, before;  // blocks of earlier sequences; at first all, of all sequences

  void seek(int64_t block) {
    while (block < before) before -= divide_up(rows_of(rows, --sequence), positions);
  }
};

struct Buffers {
  QueryBlock block;
  SoftmaxState total;
};

int64_t lay_out(const PagedAttention& op, const Cut& cut, float* base, Buffers& buffers) {
  QueryBlock& block = buffers.block;
  block.size = op.q.size(2), block.stride = round_up(block.size, kTileWidth) + 16, block.heads = cut.ratio,
  block.window = op.window;
  const int64_t rows = cut.positions * cut.ratio;
  int64_t used = 0;
  const auto take = [&](int64_t count) {
    float* at = base == nullptr ? nullptr : base + used;  // none: only the sizes are wanted
    used += round_up(count, 16);
    return at;
  };
  block.q = take(rows * block.stride);
  block.columns = take(round_up(block.size, 2 * kLanes) * kTileWidth);
  block.scores = take(rows * kScoreStride);
  for (SoftmaxState* state : {&block.state, &buffers.total})
    state->largest = take(rows), state->sum = take(rows), state->values = take(rows * block.stride);
  return used;
}

void read_queries(const PagedAttention& op, const QueryBlock& block, int64_t row, int64_t head) {
  for (int64_t i = 0; i < block.rows(); ++i) {
    const int64_t token = row + i / block.heads, h = head * block.heads + i % block.heads;
    float* q = block.q + i * block.stride;
    read_row(op.q, token * op.q.stride(0) + h * op.q.stride(1), block.size, q);
    for (int64_t d = 0; d < block.size; d += kLanes) store(q + d, splat(op.scale) * load(q + d));
  }
}

SoftmaxState row_of(const SoftmaxState& state, int64_t row, int64_t stride) {
  return {state.largest + row, state.sum + row, state.values + row * stride};
}

void write_out(const PagedAttention& op, int64_t token, int64_t head, const SoftmaxState& state) {
  const int64_t size = op.q.size(2);
  const Vec factor = splat(1.0f / *state.sum);
  for (int64_t d = 0; d < size; d += kLanes) store(state.values + d, factor * load(state.values + d));
  write_row(op.out, token * op.out.stride(0) + head * op.out.stride(1), size, state.values);
}

// Where the partial results of the rows of an op lie: [row, query head, piece].
struct Records {
  float* data;
  const Cut& cut;
  int64_t index(int64_t token, int64_t head, int64_t piece) const {
    return (token * cut.heads * cut.ratio + head) * cut.pieces + piece;
  }
  SoftmaxState at(int64_t token, int64_t head, int64_t piece) const {
    float* record = data + index(token, head, piece) * cut.record;
    return {record + cut.record - 2, record + cut.record - 1, record};
  }
};

void attend_piece(const PagedAttention& op, const QueryBlock& block, int64_t piece) {
  const KeyRange range{piece * kPiece, (piece + 1) * kPiece};
  op.cache.keys.dtype == DType::BF16 ? attend<uint16_t>(block, range) : attend<float>(block, range);
}

// All keys of a block, piece by piece.
void attend_all(const PagedAttention& op, Buffers& buffers, int64_t row, int64_t head) {
  QueryBlock& block = buffers.block;
  const KeyRange seen = block.seen();
  const int64_t first = seen.begin / kPiece, last = (seen.end - 1) / kPiece;
  for (int64_t piece = first; piece <= last; ++piece) {
    attend_piece(op, block, piece);
    if (piece == first) {
      const SoftmaxState state = block.state;
      block.state = buffers.total, buffers.total = state;
      continue;
    }
    for (int64_t i = 0; i < block.rows(); ++i)
      merge(row_of(buffers.total, i, block.stride), row_of(block.state, i, block.stride), block.size);
  }
  for (int64_t i = 0; i < block.rows(); ++i)
    write_out(op, row + i / block.heads, head * block.heads + i % block.heads, row_of(buffers.total, i, block.stride));
}

struct Place {
  int64_t row, head, piece;  // first row, head of the cache
};

// One piece of keys of a block, into the records.
void attend_one(const PagedAttention& op, const QueryBlock& block, const Records& records, const Place& place) {
  if (block.seen().end <= place.piece * kPiece) return;
  attend_piece(op, block, place.piece);
  for (int64_t i = 0; i < block.rows(); ++i) {
    const SoftmaxState from = row_of(block.state, i, block.stride);
    const SoftmaxState to =
        records.at(place.row + i / block.heads, place.head * block.heads + i % block.heads, place.piece);
    *to.largest = *from.largest, *to.sum = *from.sum;
    for (int64_t d = 0; d < block.size; d += kLanes) store(to.values + d, load(from.values + d));
  }
}

void merge_pieces(const PagedAttention& op, const Records& records, int64_t token, int64_t head) {
  const int64_t last = op.rows.positions.as<int32_t>()[token] / kPiece;
  const SoftmaxState total = records.at(token, head, 0);
  for (int64_t piece = 1; piece <= last; ++piece) merge(total, records.at(token, head, piece), op.q.size(2));
  write_out(op, token, head, total);
}

}  // namespace

void paged_attention(const PagedAttention& op, const Share& share) {
  const Cut cut = cut_up(op, share.members);
  Buffers buffers;
  const int64_t floats = lay_out(op, cut, nullptr, buffers);
  lay_out(op, cut, reinterpret_cast<float*>(share.workspace(static_cast<size_t>(floats) * sizeof(float))), buffers);
  Records records{nullptr, cut};
  if (cut.pieces > 1) {
    const int64_t bytes = records.index(op.rows.tokens, 0, 0) * cut.record * static_cast<int64_t>(sizeof(float));
    records.data = reinterpret_cast<float*>(share.shared_workspace(static_cast<size_t>(bytes)));
  }
  QueryBlock& block = buffers.block;
  Cursor cursor{op.rows, cut.positions, op.rows.sequences, cut.blocks};
  const int64_t items = cut.blocks * cut.heads * cut.pieces;
  for (int64_t item = share.take(items); item >= 0; item = share.take(items)) {
    // Prompts come last in a batch, and the last of their blocks see the most keys: these begin first, so that the
    // small ones fill up what is left at the end.
    const int64_t index = cut.blocks - 1 - item / (cut.heads * cut.pieces);
    cursor.seek(index);
    const int64_t offset = (index - cursor.before) * cut.positions;
    const int64_t left = rows_of(op.rows, cursor.sequence) - offset;
    const Place place{op.rows.starts.as<int32_t>()[cursor.sequence] + offset, item / cut.pieces % cut.heads,
                      item % cut.pieces};
    block.position = op.rows.positions.as<int32_t>()[place.row];
    block.positions = left < cut.positions ? left : cut.positions;
    const int32_t* table = op.cache.table.row<int32_t>(cursor.sequence);
    block.keys = {&op.cache.keys, table, place.head}, block.values = {&op.cache.values, table, place.head};
    read_queries(op, block, place.row, place.head);
    cut.pieces > 1 ? attend_one(op, block, records, place) : attend_all(op, buffers, place.row, place.head);
  }
  if (cut.pieces == 1) return;
  share.barrier();
  const int64_t heads = op.q.size(1), merges = op.rows.tokens * heads;
  for (int64_t item = share.take(merges); item >= 0; item = share.take(merges))
    merge_pieces(op, records, item / heads, item % heads);
}

}  // namespace braid::cpu::BRAID_ISA
