// The launches of sorted experts: sorting and coding x, gate and up, coding what they gave, down, and the sum over a
// row's slots in their order. A shared expert of the experts' extents is one more of them, which every row chooses.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/experts/sorted.h"

#include "cuda/common/reduce.h"
#include "cuda/common/start.h"
#include "cuda/experts/grouped.h"
#include "cuda/experts/shared.h"
#include "cuda/linear/decoded.h"
#include "cuda/linear/select.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

constexpr int kTogether = 8;  // slots whose parts are under way

struct Summing {
  View out, weights, shared_gate;
  View parts;   // bf16 [positions, width]
  View shared;  // [tokens, width], or absent
  const int32_t* place;
  int32_t k;
};

struct Eight {
  float values[8];
};

__device__ void add_eight(Eight& sum, float by, const uint4& in) {
  const uint32_t words[4] = {in.x, in.y, in.z, in.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum.values[2 * i] += by * __uint_as_float(words[i] << 16);
    sum.values[2 * i + 1] += by * __uint_as_float(words[i] & 0xFFFF0000u);
  }
}
__device__ uint4 load_eight(const View& v, int64_t at) {
  return *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(v.data) + at);
}

__global__ void __launch_bounds__(256) sum_kernel(Summing a) {
  await_then_allow();
  const int64_t row = blockIdx.x, width = a.out.shape[1];
  const float factor =
      a.shared_gate.data == nullptr ? 1.0f : sigmoid(get(a.shared_gate, row * a.shared_gate.stride[0]));
  for (int64_t column = threadIdx.x * int64_t{8}; column < width; column += blockDim.x * int64_t{8}) {
    Eight sum{};
    for (int first = 0; first < a.k; first += kTogether) {
      uint4 found[kTogether];
      float by[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        if (first + i >= a.k) continue;
        found[i] = load_eight(a.parts, a.place[row * a.k + first + i] * a.parts.stride[0] + column);
        by[i] = get(a.weights, row * a.weights.stride[0] + first + i);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (first + i < a.k) add_eight(sum, by[i], found[i]);
    }
    if (a.shared.data != nullptr && a.shared.bf16) add_eight(sum, factor, load_eight(a.shared, row * width + column));
    if (a.shared.data != nullptr && !a.shared.bf16)
#pragma unroll
      for (int i = 0; i < 8; ++i) sum.values[i] += factor * get(a.shared, row * width + column + i);
    const int64_t at = row * a.out.stride[0] + column;
    if (a.out.bf16) {
      __nv_bfloat162 pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = __floats2bfloat162_rn(sum.values[2 * i], sum.values[2 * i + 1]);
      *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(a.out.data) + at) = *reinterpret_cast<const uint4*>(pairs);
    } else {
      auto* out = reinterpret_cast<float4*>(static_cast<float*>(a.out.data) + at);
      out[0] = {sum.values[0], sum.values[1], sum.values[2], sum.values[3]};
      out[1] = {sum.values[4], sum.values[5], sum.values[6], sum.values[7]};
    }
  }
}

View take_view(Context& context, int64_t rows, int64_t width, bool bf16) {
  return {.data = context.take(static_cast<size_t>(rows * width * (bf16 ? 2 : 4))),
          .bf16 = bf16,
          .shape = {rows, width, 1, 1},
          .stride = {width, 1, 0, 0}};
}

bool alike(const Codes& a, const Codes& b) {
  return a.coding == b.coding && a.rows == b.rows && a.columns == b.columns;
}
bool shared_fits(const Context& context, const Experts& op) {
  if (op.shared_gate_up == nullptr) return false;
  const Codes &gate_up = codes_of(*op.shared_gate_up), &down = codes_of(*op.shared_down);
  return alike(gate_up, codes_of(*op.gate_up)) && alike(down, codes_of(*op.down)) &&
         grouped_takes(context, gate_up, true) && grouped_takes(context, down, false);
}

bool aligned(const View& v) {
  return reinterpret_cast<uintptr_t>(v.data) % 16 == 0 && v.stride[0] * (v.bf16 ? 2 : 4) % 16 == 0;
}

// Codes of a number of x, 0: bf16. From kCodedTokens rows on one code, as in other products; fewer are kept as near as
// bf16.
int pieces_for(const Codes& codes, int64_t tokens) {
  if (codes.coding != Coding::Fp8) return 0;
  return tokens >= kCodedTokens ? 1 : 2;
}

// The weight as the grouped kernel takes it: NVFP4 is written to `room` as bf16.
bool is_decoded(const Codes& codes) { return codes.coding == Coding::Nvfp4; }
Codes as_bf16(const Codes& codes, const void* room) {
  return {
      .data = static_cast<const uint8_t*>(room), .count = codes.count, .rows = codes.rows, .columns = codes.columns};
}
Codes operand_of(const Codes& codes, const void* room) { return is_decoded(codes) ? as_bf16(codes, room) : codes; }
Codes take_operand(Context& context, const Codes& codes, __nv_bfloat16* room) {
  if (is_decoded(codes)) decode_rows(context, room, codes, 0, codes.count * codes.rows);
  return operand_of(codes, room);
}

}  // namespace

bool experts_sort(const Context& context, const Experts& op) {
  const Codes gate_up = operand_of(codes_of(*op.gate_up), nullptr), down = operand_of(codes_of(*op.down), nullptr);
  constexpr int64_t kMostExperts = 4096;  // counted in shared memory
  return aligned(view(op.x)) && aligned(view(op.out)) && gate_up.coding == down.coding &&
         gate_up.count <= kMostExperts && grouped_takes(context, gate_up, true) && grouped_takes(context, down, false);
}

void compute_sorted(Context& context, const Experts& op) {
  const Codes &coded = codes_of(*op.gate_up), &coded_down = codes_of(*op.down);
  // Both weights in turn.
  const int64_t decoded =
      std::max(coded.count * coded.rows * coded.columns, coded_down.count * coded_down.rows * coded_down.columns);
  auto* room = is_decoded(coded) ? context.take<__nv_bfloat16>(decoded) : nullptr;
  const Codes gate_up = take_operand(context, coded, room);
  const int64_t tokens = op.x.rows(), slots = op.chosen.elements();
  const int pieces = pieces_for(gate_up, tokens), columns = std::max(pieces, 1);
  const int32_t most = slots * columns <= kFewColumns / 2 * gate_up.count ? kFewColumns : kManyColumns;
  const bool shared = shared_fits(context, op);
  View beside;  // what the shared expert gives
  if (op.shared_gate_up != nullptr && !shared) beside = shared_rows(context, op);

  TileRows x;
  const Arranged order = arrange(context, op, {.most = most / columns, .shared = shared, .pieces = pieces}, x);
  GroupedProduct product{.out = take_view(context, order.positions, coded_down.columns, true),
                         .x = x,
                         .rows = order.rows,
                         .codes = &gate_up,
                         .shared = shared ? &codes_of(*op.shared_gate_up) : nullptr,
                         .gated = true,
                         .groups = order.groups,
                         .group_count = order.group_count,
                         .most_columns = most};
  multiply_grouped(context, product);
  const Codes down = take_operand(context, coded_down, room);
  product.x = tile_rows(context, product.out, pieces), product.rows = nullptr;
  product.out = take_view(context, order.positions, op.x.width(), true);
  product.codes = &down, product.shared = shared ? &codes_of(*op.shared_down) : nullptr, product.gated = false;
  multiply_grouped(context, product);

  Summing sum{.out = view(op.out),
              .weights = view(op.weights),
              .shared_gate = view(op.shared_gate),
              .parts = product.out,
              .shared = beside,
              .place = order.place,
              .k = static_cast<int32_t>(op.chosen.width())};
  if (shared) {
    sum.shared = product.out;
    sum.shared.data = static_cast<__nv_bfloat16*>(product.out.data) + slots * op.x.width();
  }
  start(context, sum_kernel, {.grid = static_cast<unsigned>(tokens), .block = 256}, sum);
}

}  // namespace braid::cuda
