// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/cost.h"

#include <algorithm>
#include <cmath>

namespace braid {

namespace {

// Bytes of every argument by its role. Caches are counted per op, since a window limits what is read.
struct Bytes {
  double total = 0;
  static double of(const Tensor& tensor) { return tensor ? static_cast<double>(tensor.bytes()) : 0; }
  static double share(const Weight& weight, int64_t part, int64_t whole) {
    return static_cast<double>(weight.bytes()) * static_cast<double>(std::min(part, whole)) /
           static_cast<double>(whole);
  }
  void in(std::string_view, const Tensor& tensor) { total += of(tensor); }
  void out(std::string_view, const Tensor& tensor) { total += of(tensor); }
  void inout(std::string_view, const Tensor& tensor) { total += 2 * of(tensor); }
  void weight(std::string_view, const Weight* weight) { total += static_cast<double>(weight->bytes()); }
  void gathered(std::string_view, const Weight* weight, int64_t rows) {
    total += share(*weight, rows, weight->count * weight->rows);
  }
  void chosen(std::string_view, const Weight* weight, const Tensor& experts) {
    // Of `count` experts, rows that choose evenly leave out each with (1 - k / count)^rows.
    const auto count = static_cast<double>(weight->count), k = static_cast<double>(experts.width());
    total += static_cast<double>(weight->bytes()) * (1 - std::pow(1 - k / count, static_cast<double>(experts.rows())));
  }
  void rows(const Rows& rows) { total += of(rows.starts) + of(rows.positions) + of(rows.slots); }
  void cache(const PagedCache&, bool) {}
  void slots(std::string_view, const Tensor& tensor, const Rows& rows) {
    if (tensor.rows() > 0)
      total += 2 * of(tensor) / static_cast<double>(tensor.rows()) * static_cast<double>(rows.sequences);
  }
};

double product(const Tensor& x, const Weight& weight) {
  return 2.0 * static_cast<double>(x.rows()) * static_cast<double>(weight.rows) * static_cast<double>(weight.columns);
}

double elements(const Tensor& tensor) { return static_cast<double>(tensor.elements()); }

// Bytes of one position's keys and values.
double position_bytes(const PagedCache& cache) {
  const auto bytes = [](const Tensor& pages) { return pages.size(2) * pages.size(3) * size_of(pages.dtype); };
  return static_cast<double>(bytes(cache.keys) + bytes(cache.values));
}

// Beyond the bytes of its arguments. Ops that only move or scale elements count one or a few flops an element.
Cost extra(const Copy&) { return {}; }
Cost extra(const Gather&) { return {}; }
Cost extra(const Fill&) { return {}; }
Cost extra(const Embed& op) { return {.flops = elements(op.out)}; }
Cost extra(const AddNorm& op) { return {.flops = elements(op.stream) * (op.add ? 5 : 4)}; }
Cost extra(const Linear& op) {
  Cost cost;
  for (const Linear::Target& target : op.targets)
    if (target.weight != nullptr) cost.flops += product(op.x, *target.weight);
  return cost;
}
Cost extra(const GatedLinear& op) { return {.flops = product(op.x, *op.gate_up) + 5 * elements(op.out)}; }
Cost extra(const PrepareHeads& op) {
  return {.bytes = op.rows.tokens * position_bytes(op.cache), .flops = 7 * (elements(op.q) + elements(op.k))};
}
Cost extra(const PagedAttention& op) {
  const auto context = static_cast<double>(op.rows.context), rows = static_cast<double>(op.rows.tokens);
  const auto window = op.window > 0 ? static_cast<double>(op.window) : context;
  // A sequence's rows see one position less the earlier they are; known where there is one sequence.
  const double hidden = op.rows.sequences == 1 && op.window == 0 ? rows * (rows - 1) / 2 : 0;
  const double pairs = rows * std::min(context, window) - hidden;
  const double seen = std::min(context, window + static_cast<double>(std::max(op.rows.longest, 1) - 1));
  return {.bytes = op.rows.sequences * seen * position_bytes(op.cache),
          .flops = pairs * static_cast<double>(op.q.size(1)) *
                   (2.0 * static_cast<double>(op.q.size(2)) + 2.0 * static_cast<double>(op.out.size(2)) + 3)};
}
Cost extra(const GateBy& op) { return {.flops = 4 * elements(op.x)}; }
Cost extra(const DeltaRule& op) {
  const double state = static_cast<double>(op.value_heads * op.key_size() * op.value_size());
  const double channel = 2.0 * static_cast<double>(op.conv.width()) + 4;
  return {.flops = op.rows.tokens * (7 * state + channel * static_cast<double>(op.qkv.width())) + 8 * elements(op.out)};
}
Cost extra(const Route& op) { return {.flops = 3 * elements(op.logits)}; }
Cost extra(const Experts& op) {
  const auto slots = elements(op.chosen), rows = static_cast<double>(op.x.rows());
  const auto matrix = [](const Weight* weight) {
    return weight == nullptr ? 0.0 : 2.0 * static_cast<double>(weight->rows) * static_cast<double>(weight->columns);
  };
  return {.flops = slots * (matrix(op.gate_up) + matrix(op.down)) +
                   rows * (matrix(op.shared_gate_up) + matrix(op.shared_down))};
}
Cost extra(const Penalise& op) { return {.flops = 6.0 * static_cast<double>(op.entries.rows())}; }
Cost extra(const MaskTokens&) { return {}; }
Cost extra(const Sample& op) { return {.flops = 4 * elements(op.logits)}; }
Cost extra(const TopLogprobs& op) { return {.flops = 3 * elements(op.logits)}; }

}  // namespace

Cost cost_of(const Op& op) {
  return std::visit(
      [](auto word) {  // a copy: fields() shows arguments that a visitor may change
        Bytes bytes;
        word.fields(bytes);
        Cost cost = extra(word);
        cost.bytes += bytes.total;
        return cost;
      },
      op);
}

}  // namespace braid
