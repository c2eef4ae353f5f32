// How many bytes an op moves, roughly: what the executor decides by whether waking the team is worth it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <typeinfo>

#include "base/error.h"
#include "cpu/packing.h"
#include "ops/rows.h"
#include "tensor/tensor.h"

namespace braid::cpu {

// A visitor for the `fields` of an op. It also refuses weights that this executor has not packed.
class Work {
 public:
  int64_t bytes() const { return bytes_; }

  void in(std::string_view, const Tensor& tensor) { bytes_ += tensor.bytes(); }
  void out(std::string_view, const Tensor& tensor) { bytes_ += tensor.bytes(); }
  void inout(std::string_view, const Tensor& tensor) { bytes_ += 2 * tensor.bytes(); }
  void weight(std::string_view name, const Weight* weight) { bytes_ += checked(name, weight).bytes; }
  void gathered(std::string_view name, const Weight* weight, int64_t rows) {
    bytes_ += checked(name, weight).row_bytes * rows;
  }
  void chosen(std::string_view name, const Weight* weight, const Tensor& experts) {
    const Packed& table = checked(name, weight);
    bytes_ += table.rows * table.row_bytes * experts.elements();
  }
  void rows(const Rows&) {}
  void cache(const PagedCache& cache, bool writes) {
    if (!writes) bytes_ += cache.table.elements() * cache.keys.size(1) * cache.keys.size(2) * cache.keys.size(3);
  }
  void slots(std::string_view, const Tensor& state, const Rows& rows) {
    if (state) bytes_ += 2 * rows.tokens * (state.bytes() / state.rows());
  }

 private:
  static const Packed& checked(std::string_view name, const Weight* weight) {
    const Packing* packing = weight == nullptr ? nullptr : weight->packing.get();
    CHECK(packing != nullptr && typeid(*packing) == typeid(Packed), "weight {} was not packed by this executor", name);
    return static_cast<const Packed&>(*packing);
  }
  int64_t bytes_ = 0;
};

}  // namespace braid::cpu
