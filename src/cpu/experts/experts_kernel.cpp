// Experts: rows are sorted by expert, and each expert's matrices are applied to its rows together.
//
// Pass 1, item (expert, block of hidden columns, block of rows): gate and up, activation, written as operands.
// Pass 2, item (block of output columns): for every expert the block of down times its rows, then for every token the
// weighted sum over its slots. A token alone meets as many experts as it chose, with one row each.
// Bound by the bytes of the chosen experts for few tokens, by multiply-adds for many.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/linear/input.h"

namespace braid::cpu::BRAID_ISA {
namespace {

// Rows that go through the same matrices: sorted rows [first, first + rows).
struct Group {
  const Packed* gate_up;
  const Packed* down;
  int64_t gate_row, down_row;  // first rows of its matrices
  int64_t first, rows;
  int64_t items;  // of pass 1, up to and including this group
};

struct Plan {
  int64_t tokens, slots, sorted;  // sorted = tokens * slots; rows of the shared expert follow
  int64_t stride_1, stride_2;     // columns of a block of pass 1 and 2
  int64_t blocks_2;
  int64_t groups = 0;
  Group* group;
  int64_t* place;          // of slot s of token t among the sorted rows, [tokens, slots]
  int64_t* token;          // of a sorted row
  const uint8_t** inputs;  // of sorted rows and those of the shared expert
  const uint8_t** hidden;
  float* sums;   // of pass 1
  float* parts;  // of pass 2: [sorted + tokens, stride_2]
};

int64_t rows_with_shared(const Experts& op) {
  return op.x.rows() * (op.chosen.width() + (op.shared_gate_up != nullptr ? 1 : 0));
}

void carve_own(Plan& plan, Carver& carver, const Experts& op) {
  const int64_t rows = rows_with_shared(op);
  plan.group = carver.take<Group>(op.gate_up->count + 1);
  plan.place = carver.take<int64_t>(plan.sorted);
  plan.token = carver.take<int64_t>(plan.sorted);
  plan.inputs = carver.take<const uint8_t*>(rows);
  plan.hidden = carver.take<const uint8_t*>(rows);
  const int64_t most = rows < kBlockTokens ? round_up(rows, kTileRows) : kBlockTokens;
  plan.sums = carver.take<float>(2 * most * plan.stride_1);
  plan.parts = carver.take<float>(rows * plan.stride_2);
}

// Counting sort of the slots by expert; within an expert the order of tokens stays.
void sort(const Experts& op, Plan& plan) {
  const Packed& gate_up = packed(*op.gate_up);
  const Packed& down = packed(*op.down);
  for (int64_t e = 0; e < gate_up.count; ++e)
    plan.group[e] = {&gate_up, &down, e * gate_up.rows, e * down.rows, 0, 0, 0};
  for (int64_t t = 0; t < plan.tokens; ++t)
    for (int64_t s = 0; s < plan.slots; ++s) ++plan.group[op.chosen.row<const int32_t>(t)[s]].rows;
  int64_t first = 0;
  for (int64_t e = 0; e < gate_up.count; ++e) {
    plan.group[e].first = first;
    first += plan.group[e].rows;
    plan.group[e].rows = 0;
  }
  for (int64_t t = 0; t < plan.tokens; ++t) {
    for (int64_t s = 0; s < plan.slots; ++s) {
      Group& group = plan.group[op.chosen.row<const int32_t>(t)[s]];
      const int64_t place = group.first + group.rows++;
      plan.place[t * plan.slots + s] = place;
      plan.token[place] = t;
    }
  }
  plan.groups = 0;
  for (int64_t e = 0; e < gate_up.count; ++e)
    if (plan.group[e].rows > 0) plan.group[plan.groups++] = plan.group[e];
  if (op.shared_gate_up == nullptr) return;
  plan.group[plan.groups++] = {
      &packed(*op.shared_gate_up), &packed(*op.shared_down), 0, 0, plan.sorted, plan.tokens, 0};
}

void count_items(Plan& plan) {
  int64_t items = 0;
  for (int64_t g = 0; g < plan.groups; ++g) {
    Group& group = plan.group[g];
    const int64_t blocks = (group.gate_up->rows / 2 + plan.stride_1 - 1) / plan.stride_1;
    group.items = items += blocks * TokenBlocks(group.rows).count;
  }
}

// Writes a block of hidden values as operands, and zeros beyond the last column.
template <Operand operand>
void write_hidden(uint8_t* row, const float* values, int64_t first, int64_t count, int64_t end) {
  for (int64_t n = 0; n < count; n += kLanes)
    store_operand<operand>(row + (first + n) * bytes_of(operand), load(values + n));
  for (int64_t k = round_up(first + count, kLanes) * bytes_of(operand); k < end; ++k) row[k] = 0;
}

void pass_1(const Plan& plan, int64_t item, bool fast) {
  int64_t g = 0;
  while (item >= plan.group[g].items) ++g;
  const Group& group = plan.group[g];
  item -= g == 0 ? 0 : plan.group[g - 1].items;
  const TokenBlocks blocks(group.rows);
  const int64_t t = item % blocks.count * blocks.tokens, n = item / blocks.count * plan.stride_1;
  const int64_t width = group.gate_up->rows / 2, left = width - n, after = group.rows - t;
  const Product gate{.weight = group.gate_up,
                     .operand = operand_for(*group.gate_up, fast),
                     .row = group.gate_row + n,
                     .rows = left < plan.stride_1 ? left : plan.stride_1,
                     .x = plan.inputs + group.first + t,
                     .tokens = after < blocks.tokens ? after : blocks.tokens,
                     .out = plan.sums,
                     .stride = plan.stride_1};
  gated_product(gate, gate.row + width, plan.sums + gate.tokens * plan.stride_1);
  const Operand operand = operand_for(*group.down, fast);
  const int64_t end = left <= plan.stride_1 ? prepared_stride(operand, width) : 0;
  for (int64_t i = 0; i < gate.tokens; ++i) {
    auto* row = const_cast<uint8_t*>(plan.hidden[group.first + t + i]);
    const float* values = plan.sums + i * plan.stride_1;
    if constexpr (kHasPairs) {
      if (operand == Operand::Pair) {
        write_hidden<Operand::Pair>(row, values, n, gate.rows, end);
        continue;
      }
    }
    write_hidden<Operand::Float>(row, values, n, gate.rows, end);
  }
}

template <typename Element>
void combine(const Experts& op, const Plan& plan, int64_t n, int64_t count) {
  for (int64_t t = 0; t < plan.tokens; ++t) {
    const float* weights = op.weights.row<const float>(t);
    const float factor = op.shared_gate ? sigmoid(op.shared_gate.row<const float>(t)[0]) : 1.0f;
    Element* out = op.out.row<Element>(t) + n;
    for (int64_t i = 0; i < count; i += kLanes) {
      Vec total = zero();
      for (int64_t s = 0; s < plan.slots; ++s)
        total = fma(splat(weights[s]), load(plan.parts + plan.place[t * plan.slots + s] * plan.stride_2 + i), total);
      if (op.shared_gate_up != nullptr)
        total = fma(splat(factor), load(plan.parts + (plan.sorted + t) * plan.stride_2 + i), total);
      store_as(out + i, total, count - i);
    }
  }
}

void pass_2(const Experts& op, const Plan& plan, int64_t item, bool fast) {
  const int64_t n = item * plan.stride_2, left = op.down->rows - n;
  const int64_t count = left < plan.stride_2 ? left : plan.stride_2;
  for (int64_t g = 0; g < plan.groups; ++g) {
    const Group& group = plan.group[g];
    product({.weight = group.down,
             .operand = operand_for(*group.down, fast),
             .row = group.down_row + n,
             .rows = count,
             .x = plan.hidden + group.first,
             .tokens = group.rows,
             .out = plan.parts + group.first * plan.stride_2,
             .stride = plan.stride_2});
  }
  op.out.dtype == DType::F32 ? combine<float>(op, plan, n, count) : combine<uint16_t>(op, plan, n, count);
}

// Columns of the blocks of both passes.
void cut(const Experts& op, Plan& plan, int members) {
  const int64_t width = op.gate_up->rows / 2, rows = rows_with_shared(op);
  const int64_t met = rows < op.gate_up->count ? rows : op.gate_up->count;
  const int64_t panels = met * ((width + kLanes - 1) / kLanes);
  plan.stride_1 = kLanes * panels_of_block(panels, plan.tokens, members);
  plan.stride_2 = kLanes * panels_of_block((op.down->rows + kLanes - 1) / kLanes, plan.tokens, members);
  plan.blocks_2 = (op.down->rows + plan.stride_2 - 1) / plan.stride_2;
}

}  // namespace

void experts(const Experts& op, const Share& share) {
  Plan plan{.tokens = op.x.rows(), .slots = op.chosen.width()};
  if (plan.tokens == 0) return;
  plan.sorted = plan.tokens * plan.slots;
  cut(op, plan, share.members);
  const bool alone = Forms::alone(op.x), shares = op.shared_gate_up != nullptr;
  const Operand operand = operand_for(packed(*op.gate_up), share.fast);
  const Operand shared_operand = shares ? operand_for(packed(*op.shared_gate_up), share.fast) : operand;
  Forms forms;
  forms.want(operand);
  forms.want(shared_operand);
  const Operand down_operand = operand_for(packed(*op.down), share.fast);
  const Operand shared_down = shares ? operand_for(packed(*op.shared_down), share.fast) : down_operand;
  const int64_t hidden_stride = prepared_stride(down_operand, op.down->columns);
  const int64_t shared_stride = shares ? prepared_stride(shared_down, op.shared_down->columns) : 0;

  const auto carve_own_part = [&](Carver& carver) {
    if (alone) forms.carve(carver, op.x);
    carve_own(plan, carver, op);
  };
  const auto carve_shared_part = [&](Carver& carver) {
    if (!alone) forms.carve(carver, op.x);
    return carver.take<uint8_t>(plan.sorted * hidden_stride + plan.tokens * shared_stride);
  };
  Carver measure(nullptr), measure_shared(nullptr);
  carve_own_part(measure);
  carve_shared_part(measure_shared);
  Carver own(share.workspace(measure.used())), shared(share.shared_workspace(measure_shared.used()));
  carve_own_part(own);
  uint8_t* hidden = carve_shared_part(shared);

  sort(op, plan);
  count_items(plan);
  forms.prepare(share, op.x);
  for (int64_t i = 0; i < plan.sorted; ++i) {
    plan.inputs[i] = forms.row(operand, plan.token[i]);
    plan.hidden[i] = hidden + i * hidden_stride;
  }
  for (int64_t t = 0; shares && t < plan.tokens; ++t) {
    plan.inputs[plan.sorted + t] = forms.row(shared_operand, t);
    plan.hidden[plan.sorted + t] = hidden + plan.sorted * hidden_stride + t * shared_stride;
  }
  const int64_t items = plan.groups == 0 ? 0 : plan.group[plan.groups - 1].items;
  for (Ranges range(items, plan.tokens, share.members); range.next(share);)
    for (int64_t item = range.from; item < range.to; ++item) pass_1(plan, item, share.fast);
  share.barrier();
  for (Ranges range(plan.blocks_2, plan.tokens, share.members); range.next(share);)
    for (int64_t item = range.from; item < range.to; ++item) pass_2(op, plan, item, share.fast);
}

}  // namespace braid::cpu::BRAID_ISA
