// Linear and GatedLinear: work items are blocks of outputs of one target by blocks of tokens.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dispatch/functions.h"
#include "cpu/linear/input.h"

namespace braid::cpu::BRAID_ISA {
namespace {

struct Plan {
  int64_t tokens;
  TokenBlocks token_blocks;
  int targets = 0;
  const Packed* weights[4];
  Operand operands[4];
  int64_t outputs[4];
  int64_t blocks[4];   // of outputs
  int64_t stride = 0;  // outputs of a block
  int64_t items = 0;
  Forms forms;
  const uint8_t** pointers[Forms::kKinds] = {};

  explicit Plan(int64_t rows) : tokens(rows), token_blocks(rows) {}
  void add(const Weight& target, int64_t rows, bool fast) {
    weights[targets] = &packed(target);
    operands[targets] = operand_for(*weights[targets], fast);
    outputs[targets] = rows;
    forms.want(operands[targets++]);
  }
  void cut(int members) {
    int64_t panels = 0;
    for (int i = 0; i < targets; ++i) panels += (outputs[i] + kLanes - 1) / kLanes;
    stride = kLanes * panels_of_block(panels * token_blocks.count, tokens, members);
    for (int i = 0; i < targets; ++i) {
      blocks[i] = (outputs[i] + stride - 1) / stride;
      items += blocks[i] * token_blocks.count;
    }
  }
  int64_t sum_count() const { return token_blocks.tokens * stride; }
};

struct Item {
  int target;
  Block block;
  Product product;
};

Item item_of(const Plan& plan, int64_t number, float* sums) {
  const int64_t t = number % plan.token_blocks.count * plan.token_blocks.tokens;
  int64_t block = number / plan.token_blocks.count;
  int target = 0;
  for (; block >= plan.blocks[target]; ++target) block -= plan.blocks[target];
  const int64_t n = block * plan.stride, left = plan.outputs[target] - n, after = plan.tokens - t;
  Item item{.target = target,
            .block = {.token = t,
                      .tokens = after < plan.token_blocks.tokens ? after : plan.token_blocks.tokens,
                      .output = n,
                      .outputs = left < plan.stride ? left : plan.stride}};
  item.product = {.weight = plan.weights[target],
                  .operand = plan.operands[target],
                  .row = n,
                  .rows = item.block.outputs,
                  .x = plan.pointers[static_cast<int>(plan.operands[target])] + t,
                  .tokens = item.block.tokens,
                  .out = sums,
                  .stride = plan.stride};
  return item;
}

// Prepares x and hands out this member's memory for `sum_blocks` blocks of sums.
float* begin(const Share& share, const Tensor& x, Plan& plan, int sum_blocks) {
  const bool alone = Forms::alone(x);
  const auto carve = [&](Carver& carver) {
    if (alone) plan.forms.carve(carver, x);
    for (int kind = 0; kind < Forms::kKinds; ++kind)
      if (plan.forms.wanted[kind]) plan.pointers[kind] = carver.take<const uint8_t*>(plan.tokens);
    return carver.take<float>(sum_blocks * plan.sum_count());
  };
  Carver measure(nullptr);
  carve(measure);
  Carver own(share.workspace(measure.used()));
  float* sums = carve(own);
  if (!alone) {
    Carver measure_shared(nullptr);
    plan.forms.carve(measure_shared, x);
    Carver shared(share.shared_workspace(measure_shared.used()));
    plan.forms.carve(shared, x);
  }
  plan.forms.prepare(share, x);
  for (int kind = 0; kind < Forms::kKinds; ++kind)
    for (int64_t t = 0; plan.forms.wanted[kind] && t < plan.tokens; ++t)
      plan.pointers[kind][t] = plan.forms.row(static_cast<Operand>(kind), t);
  return sums;
}

}  // namespace

void linear(const Linear& op, const Share& share) {
  if (op.x.rows() == 0) return;
  Plan plan(op.x.rows());
  for (const Linear::Target& target : op.targets) {
    if (target.weight == nullptr) break;
    plan.add(*target.weight, target.weight->rows, share.fast && !op.exact);
  }
  plan.cut(share.members);
  float* sums = begin(share, op.x, plan, 1);
  for (Ranges range(plan.items, plan.tokens, share.members); range.next(share);) {
    for (int64_t number = range.from; number < range.to; ++number) {
      const Item item = item_of(plan, number, sums);
      product(item.product);
      write_block(op.targets[static_cast<size_t>(item.target)].out, item.block, sums, plan.stride);
    }
  }
}

void gated_linear(const GatedLinear& op, const Share& share) {
  if (op.x.rows() == 0) return;
  Plan plan(op.x.rows());
  plan.add(*op.gate_up, op.gate_up->rows / 2, share.fast);
  plan.cut(share.members);
  float* sums = begin(share, op.x, plan, 2);
  for (Ranges range(plan.items, plan.tokens, share.members); range.next(share);) {
    for (int64_t number = range.from; number < range.to; ++number) {
      const Item item = item_of(plan, number, sums);
      gated_product(item.product, item.product.row + plan.outputs[0], sums + plan.sum_count());
      write_block(op.out, item.block, sums, plan.stride);
    }
  }
}

}  // namespace braid::cpu::BRAID_ISA
