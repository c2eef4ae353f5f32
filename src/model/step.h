// What one pass needs: executor, scratch memory, batch, weights and state; and how parts name ops on them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

#include "model/batch.h"
#include "ops/executor.h"
#include "state/pool.h"
#include "tensor/scratch.h"
#include "weights/table.h"

namespace braid {

// Lives for one pass, on one thread. With `poison`, memory is filled with NaN when a frame gives it back.
class Step {
 public:
  struct Parts {
    Executor& executor;
    Scratch& scratch;
    const WeightTable& weights;
    const StatePool& state;
    const Batch& batch;
    bool poison = false;
  };
  explicit Step(const Parts& parts) : parts_(parts) {}

  void run(const Op& op) { parts_.executor.submit(op); }
  const Batch& batch() const { return parts_.batch; }
  const Rows& rows() const { return parts_.batch.rows; }

  const Weight* matrix(MatrixId id) const { return id ? &parts_.weights.matrix(id) : nullptr; }
  Tensor vector(VectorId id) const { return parts_.weights.vector(id); }

  // Step memory that lives until the enclosing Frame ends: activations [tokens, width], or anything else.
  Tensor activations(int64_t width) { return allocate(parts_.executor.activation_type(), {rows().tokens, width}); }
  Tensor allocate(DType type, std::initializer_list<int64_t> shape) { return parts_.scratch.allocate(type, shape); }

  // Paged keys and values of one layer, each row of `bytes per token` seen as [heads, size].
  PagedCache cache(MemoryId keys, MemoryId values, int64_t heads) const;
  // A slot array as f32 [slots + 1, shape...].
  Tensor slots(MemoryId memory, std::initializer_list<int64_t> shape) const;

 private:
  friend class Frame;
  Parts parts_;
};

// Gives back, at its end, what was allocated since it began.
class Frame {
 public:
  explicit Frame(Step& step) : step_(step), mark_(step.parts_.scratch.used()) {}
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Step& step_;
  size_t mark_;
};

}  // namespace braid
