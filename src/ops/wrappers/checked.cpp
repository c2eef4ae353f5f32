// SPDX-License-Identifier: Apache-2.0
#include "ops/wrappers/checked.h"

#include <algorithm>

#include "base/error.h"

namespace braid {

namespace {

struct CheckedPacking : Packing {
  explicit CheckedPacking(Weight inner) : packed(std::move(inner)) {}
  Weight packed;
};

// Puts the inner executor's weights into an op.
struct Unwrap {
  void in(std::string_view, Tensor&) {}
  void out(std::string_view, Tensor&) {}
  void inout(std::string_view, Tensor&) {}
  void weight(std::string_view name, const Weight*& weight) {
    const auto* packing = dynamic_cast<const CheckedPacking*>(weight->packing.get());
    CHECK(packing != nullptr, "{} was not packed by this executor", name);
    weight = &packing->packed;
  }
  void gathered(std::string_view name, const Weight*& table, int64_t) { weight(name, table); }
  void chosen(std::string_view name, const Weight*& experts, Tensor&) { weight(name, experts); }
  void rows(Rows&) {}
  void cache(PagedCache&, bool) {}
  void slots(std::string_view, Tensor&, Rows&) {}
};

Weight plain_copy(const Weight& weight) {
  return {.format = weight.format,
          .count = weight.count,
          .rows = weight.rows,
          .columns = weight.columns,
          .segments = weight.segments};
}

}  // namespace

void CheckedExecutor::submit(const Op& op) {
  inner_.wait();
  const std::vector<Expected> pieces = expected_of(op, precision_);
  Op unwrapped = op;
  std::visit([](auto& word) { word.fields(Unwrap{}); }, unwrapped);
  inner_.submit(unwrapped);
  inner_.wait();
  for (const Expected& piece : pieces) {
    const Comparison comparison = compare(piece);
    double& share = shares_[std::string(name_of(op)) + " " + piece.argument];
    share = std::max(share, comparison.share);
    if (comparison.failure) fail(ErrorKind::Internal, "{} on {}: {}", name_of(op), name(), *comparison.failure);
  }
}

Weight CheckedExecutor::pack(Weight plain) {
  plain.packing = std::make_unique<CheckedPacking>(inner_.pack(plain_copy(plain)));
  return plain;
}

}  // namespace braid
