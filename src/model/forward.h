// One step of any model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "model/spec.h"
#include "model/step.h"

namespace braid {

// In the step's scratch memory: valid until the caller's Frame ends.
struct Outputs {
  Tensor hidden;  // [tokens, width], after the final norm
  Tensor logits;  // f32 [head rows, vocabulary]; empty when no row reaches the head
};

// Called with the stream after the embedding (layer 0) and after each layer (1, 2, ...), as [tokens, width], once its
// ops are submitted. A tap makes held writes land.
using Tap = std::function<void(int layer, Tensor stream)>;

Outputs forward(Step& step, const ModelSpec& model, const Tap& tap = nullptr);

// The drafter's pass: row t pairs hidden[t] (the trunk's row after its final norm, or the drafter's own) with the token
// that follows it, which the batch holds at row t; its logits predict the token after that.
Outputs draft(Step& step, const ModelSpec& model, Tensor hidden);

}  // namespace braid
