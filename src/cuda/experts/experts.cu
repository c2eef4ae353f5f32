// Mixtures of experts: which way, and the one that takes every format and shape, on every device: slots (a row and one
// of its choices) are sorted by expert, both products run by groups of up to 32 slots of one expert, and a last kernel
// adds up each row. Bounded by reading the chosen weights.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cuda/common/error.h"
#include "cuda/common/reduce.h"
#include "cuda/experts/few.h"
#include "cuda/experts/one.h"
#include "cuda/experts/shared.h"
#include "cuda/experts/sorted.h"
#include "cuda/experts/stream.h"
#include "cuda/launch.h"
#include "cuda/linear/product.h"
#include "cuda/linear/select.h"
#include "cuda/packing.h"

namespace braid::cuda {
namespace {

struct Arrangement {
  int32_t most;  // slots of a group
  const int32_t* chosen;
  int64_t chosen_stride, slots;
  int32_t k, experts;
  int32_t *list, *group_count;
  Group* groups;
};

// One block. Counts, places and fills; the order within an expert is any.
__global__ void arrange_kernel(Arrangement a) {
  extern __shared__ int32_t next[];  // per expert: how many, then where its next slot goes
  for (int e = threadIdx.x; e < a.experts; e += blockDim.x) next[e] = 0;
  __syncthreads();
  const auto expert_of = [&](int64_t slot) { return a.chosen[slot / a.k * a.chosen_stride + slot % a.k]; };
  for (int64_t slot = threadIdx.x; slot < a.slots; slot += blockDim.x) atomicAdd(&next[expert_of(slot)], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t first = 0, groups = 0;
    for (int32_t e = 0; e < a.experts; ++e) {
      const int32_t count = next[e], parts = (count + a.most - 1) / a.most;
      for (int32_t part = 0; part < parts; ++part) {
        const int32_t from = count * part / parts, to = count * (part + 1) / parts;
        a.groups[groups++] = {e, first + from, to - from};
      }
      next[e] = first;
      first += count;
    }
    *a.group_count = groups;
  }
  __syncthreads();
  for (int64_t slot = threadIdx.x; slot < a.slots; slot += blockDim.x)
    a.list[atomicAdd(&next[expert_of(slot)], 1)] = static_cast<int32_t>(slot);
}

struct Joining {
  View out, shared_gate, weights;
  View parts;   // [slots, width]
  View shared;  // f32 [tokens, width]
  int32_t k;
};

__global__ void join_kernel(Joining a) {
  const int64_t row = blockIdx.x, width = a.out.shape[1];
  const float factor =
      a.shared_gate.data == nullptr ? 1.0f : sigmoid(get(a.shared_gate, row * a.shared_gate.stride[0]));
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0;
    for (int s = 0; s < a.k; ++s)
      sum += get(a.weights, row * a.weights.stride[0] + s) * get(a.parts, (row * a.k + s) * width + i);
    if (a.shared.data != nullptr) sum += factor * get(a.shared, row * width + i);
    put(a.out, row * a.out.stride[0] + i, sum);
  }
}

// What the second product reads: bf16 where it would round anyway.
View take_hidden(Context& context, const Codes& down, int64_t rows) {
  const bool coded = down.coding == Coding::BF16 || down.coding == Coding::Fp8;
  View out{.bf16 = context.fast() && coded && down.columns % 128 == 0};
  out.data = context.take(static_cast<size_t>(rows * down.columns * (out.bf16 ? 2 : 4)));
  out.shape[0] = rows, out.shape[1] = down.columns, out.stride[0] = down.columns, out.stride[1] = 1;
  return out;
}

View take_rows(Context& context, int64_t rows, int64_t width) {
  View out{.data = context.take<float>(rows * width)};
  out.shape[0] = rows, out.shape[1] = width, out.stride[0] = width, out.stride[1] = 1;
  return out;
}

Product grouped(const Product& like, const Arrangement& a, int64_t most_groups) {
  Product out = like;
  out.slots = a.slots, out.list = a.list, out.groups = a.groups, out.group_count = a.group_count;
  out.most_groups = most_groups;
  return out;
}

// Sorts the slots by expert, into groups of at most `most`.
Arrangement arrange(Context& context, const Experts& op, int32_t most, int64_t& most_groups) {
  const int64_t slots = op.chosen.elements(), experts = op.gate_up->count;
  most_groups = std::min(slots, experts + slots / most);
  const Arrangement a{.most = most,
                      .chosen = op.chosen.as<int32_t>(),
                      .chosen_stride = op.chosen.stride(0),
                      .slots = slots,
                      .k = static_cast<int32_t>(op.chosen.width()),
                      .experts = static_cast<int32_t>(experts),
                      .list = context.take<int32_t>(slots),
                      .group_count = context.take<int32_t>(1),
                      .groups = context.take<Group>(most_groups)};
  arrange_kernel<<<1, 1024, static_cast<size_t>(experts) * sizeof(int32_t), context.stream()>>>(a);
  return a;
}

// What every slot brings, [slots, width]: small groups through the kernels for few rows.
View slot_rows(Context& context, const Experts& op) {
  int64_t most_groups = 0;
  const Arrangement a = arrange(context, op, kThinTokens, most_groups);
  const View hidden = take_hidden(context, codes_of(*op.down), a.slots);
  const View parts = take_rows(context, a.slots, op.x.width());
  Product first =
      grouped({.out = hidden, .x = view(op.x), .codes = codes_of(*op.gate_up), .gated = true}, a, most_groups);
  first.divide = a.k;
  multiply(context, first);
  multiply(context, grouped({.out = parts, .x = hidden, .codes = codes_of(*op.down)}, a, most_groups));
  return parts;
}

Experts rows_of(const Experts& op, int64_t first, int64_t count) {
  Experts part = op;
  for (Tensor* tensor : {&part.out, &part.x, &part.chosen, &part.weights, &part.shared_gate})
    if (*tensor) *tensor = tensor->slice_rows(first, count);
  return part;
}

}  // namespace

View shared_rows(Context& context, const Experts& op) {
  const int64_t tokens = op.x.rows();
  const View hidden = take_hidden(context, codes_of(*op.shared_down), tokens);
  const View out = take_rows(context, tokens, op.x.width());
  multiply(context,
           {.out = hidden, .x = view(op.x), .codes = codes_of(*op.shared_gate_up), .gated = true, .slots = tokens});
  multiply(context, {.out = out, .x = hidden, .codes = codes_of(*op.shared_down), .slots = tokens});
  return out;
}

void launch(Context& context, const Experts& op) {
  CHECK(op.activation == Activation::Silu);
  const int64_t tokens = op.x.rows();
  if (tokens == 0) return;
  if (compute_one(context, op)) return;
  const Experts pass = rows_of(op, 0, std::min(tokens, kFewRows));
  if (tokens <= kFewPassRows && experts_few(context, pass)) {
    for (int64_t row = 0; row < tokens; row += kFewRows)
      compute_few(context, rows_of(op, row, std::min(tokens - row, kFewRows)));
    return;
  }
  if (experts_stream(context, op)) return compute_streamed(context, op);
  if (experts_sort(context, op)) return compute_sorted(context, op);
  context.say_once(
      "cuda: experts of this format or these extents, or these numbers of x, run on kernels for any of them, which are "
      "slow");
  const View parts = slot_rows(context, op);
  const Joining joining{.out = view(op.out),
                        .shared_gate = view(op.shared_gate),
                        .weights = view(op.weights),
                        .parts = parts,
                        .shared = op.shared_gate_up != nullptr ? shared_rows(context, op) : View{},
                        .k = static_cast<int32_t>(op.chosen.width())};
  join_kernel<<<static_cast<unsigned>(tokens), 256, 0, context.stream()>>>(joining);
}

}  // namespace braid::cuda
