// The short causal convolution in front of the delta rule, and the window of inputs that it carries between passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/memory/elements.h"
#include "ops/recurrent.h"

namespace braid::cpu::BRAID_ISA {

// The rows of one sequence in this pass.
struct Run {
  int64_t first = 0, rows = 0;  // rows [first, first + rows) of the pass
  int64_t position = 0;         // absolute, of the first row
  int64_t slot = 0;
};

struct Channels {
  int64_t first = 0, count = 0;
};

// Where rows go: row i at data + i * stride, with room for whole vectors.
struct RowTarget {
  float* data = nullptr;
  int64_t stride = 0;
};

class Convolution {
 public:
  Convolution(const DeltaRule& op, const Run& run)
      : op_(op), run_(run), taps_(op.conv.size(1)), window_(op.conv_state.row<float>(run.slot)) {}

  // out[i, c] = silu(sum over taps) for rows start + i of the run; the last vector of a row is filled up with zeros.
  void rows(Channels channels, int64_t start, int64_t count, RowTarget out) const {
    for (int64_t c = 0; c < channels.count; c += kLanes) {
      const int64_t lanes = channels.count - c < kLanes ? channels.count - c : kLanes;
      const Channels part{channels.first + c, lanes};
      const RowTarget target{out.data + c, out.stride};
      taps_ == 4 ? four_taps(part, start, count, target) : any_taps(part, start, count, target);
    }
  }

  // Keeps the last inputs of these channels for the next pass.
  void keep(Channels channels) const {
    const int64_t width = op_.conv_state.size(2);
    for (int64_t j = 0; j < taps_ - 1; ++j) {
      const float* from = input(run_.rows - (taps_ - 1) + j) + channels.first;
      float* to = window_ + j * width + channels.first;
      for (int64_t c = 0; c < channels.count; ++c) to[c] = from[c];
    }
  }

 private:
  // Inputs of row `row` of the run; rows before it come from the state.
  const float* input(int64_t row) const {
    return row >= 0 ? op_.qkv.row<float>(run_.first + row) : window_ + (taps_ - 1 + row) * op_.conv_state.size(2);
  }

  static Vec silu(Vec x) { return x * logistic(x); }

  void four_taps(Channels part, int64_t start, int64_t count, RowTarget out) const {
    alignas(64) float weights[4][kLanes] = {};
    const float* conv = op_.conv.row<float>(part.first);
    if (part.count == kLanes) {
      for (int lane = 0; lane < kLanes; ++lane)
        for (int tap = 0; tap < 4; ++tap) weights[tap][lane] = conv[lane * 4 + tap];
    } else {
      for (int64_t lane = 0; lane < part.count; ++lane)
        for (int tap = 0; tap < 4; ++tap) weights[tap][lane] = conv[lane * 4 + tap];
    }
    const Vec w0 = load(weights[0]), w1 = load(weights[1]), w2 = load(weights[2]), w3 = load(weights[3]);
    Vec x0 = load_as(input(start - 3) + part.first, part.count);
    Vec x1 = load_as(input(start - 2) + part.first, part.count);
    Vec x2 = load_as(input(start - 1) + part.first, part.count);
    for (int64_t i = 0; i < count; ++i) {
      const Vec x3 = load_as(op_.qkv.row<float>(run_.first + start + i) + part.first, part.count);
      store(out.data + i * out.stride, silu(fma(w3, x3, fma(w2, x2, fma(w1, x1, w0 * x0)))));
      x0 = x1, x1 = x2, x2 = x3;
    }
  }

  void any_taps(Channels part, int64_t start, int64_t count, RowTarget out) const {
    alignas(64) float weights[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) {
      Vec total = zero();
      for (int64_t tap = 0; tap < taps_; ++tap) {
        for (int64_t lane = 0; lane < part.count; ++lane)
          weights[lane] = op_.conv.as<float>()[(part.first + lane) * taps_ + tap];
        const Vec x = load_as(input(start + i - (taps_ - 1) + tap) + part.first, part.count);
        total = fma(load(weights), x, total);
      }
      store(out.data + i * out.stride, silu(total));
    }
  }

  const DeltaRule& op_;
  const Run& run_;
  const int64_t taps_;
  float* const window_;
};

}  // namespace braid::cpu::BRAID_ISA
