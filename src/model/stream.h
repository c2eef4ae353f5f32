// The residual stream: branches read it normalised and write back; a write is held until the next read, which adds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/spec.h"
#include "model/step.h"

namespace braid {

class Stream {
 public:
  // Starts from x [tokens, width], which becomes the stream's own.
  Stream(Step& step, Tensor x);

  // The normalised stream, with the held write added first. The caller's frame owns the result.
  Tensor read(Step& step, const Norm& norm);
  // Where the next branch's last op puts its result.
  Tensor landing() const { return landing_; }
  // Holds what landed.
  void write() { held_ = true; }
  // The stream itself, with nothing held.
  Tensor landed(Step& step);

 private:
  Tensor stream_, landing_;
  bool held_ = false;
};

}  // namespace braid
