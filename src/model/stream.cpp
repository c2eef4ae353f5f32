// SPDX-License-Identifier: Apache-2.0
#include "model/stream.h"

namespace braid {

Stream::Stream(Step& step, Tensor x) : stream_(x), landing_(step.activations(x.width())) {}

Tensor Stream::read(Step& step, const Norm& norm) {
  Tensor out = step.activations(stream_.width());
  step.run(AddNorm{.out = out,
                   .stream = stream_,
                   .add = held_ ? landing_ : Tensor(),
                   .weight = step.vector(norm.weight),
                   .epsilon = norm.epsilon});
  held_ = false;
  return out;
}

Tensor Stream::landed(Step& step) {
  if (held_) step.run(AddNorm{.stream = stream_, .add = landing_});
  held_ = false;
  return stream_;
}

}  // namespace braid
