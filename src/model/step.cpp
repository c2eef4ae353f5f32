// SPDX-License-Identifier: Apache-2.0
#include "model/step.h"

#include "base/error.h"

namespace braid {

PagedCache Step::cache(MemoryId keys, MemoryId values, int64_t heads) const {
  const DType type = parts_.executor.cache_type();
  const auto view = [&](MemoryId memory) {
    const Tensor bytes = parts_.state.array(memory);  // u8 [pages, page tokens, bytes per token]
    return Tensor(bytes.data, type, {bytes.size(0), bytes.size(1), heads, bytes.size(2) / size_of(type) / heads});
  };
  return {.keys = view(keys), .values = view(values), .table = parts_.batch.pages};
}

Tensor Step::slots(MemoryId memory, std::initializer_list<int64_t> shape) const {
  const Tensor bytes = parts_.state.array(memory);  // u8 [slots + 1, bytes per sequence]
  CHECK(shape.size() < Tensor::kMaxRank);
  const Tensor flat(bytes.data, DType::F32, {bytes.size(0), bytes.size(1) / size_of(DType::F32)});
  const int64_t* size = shape.begin();
  Tensor out = shape.size() == 2   ? flat.reshape({flat.size(0), size[0], size[1]})
               : shape.size() == 3 ? flat.reshape({flat.size(0), size[0], size[1], size[2]})
                                   : flat.reshape({flat.size(0), size[0]});
  return out;
}

Frame::~Frame() {
  const Tensor freed = step_.parts_.scratch.release(mark_);
  if (step_.parts_.poison && freed.elements() > 0) step_.run(Fill{.out = freed, .byte = 0xFF});
}

}  // namespace braid
