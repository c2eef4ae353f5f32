// From rows of logits to tokens: the sampling ops of a step, and their arrays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "ops/executor.h"
#include "ops/sampling.h"

namespace braid {

// What is said where a row has no token to draw.
inline constexpr const char* kNothingToDraw = "no token can be drawn: every logit is masked or NaN";

// How one row is drawn. The spans must stay until `draw` returns.
struct DrawRow {
  SampleRow how;
  Penalties penalties;
  std::span<const TokenEntry> entries;  // empty: no logit of this row changes
  std::span<const int32_t> allowed;     // a TokenSet of this row's own, within the sampler's; empty: the sampler's
  int32_t logprobs = 0;                 // at most kMaxLogprobs
};

struct Drawn {
  int32_t token = -1;  // -1: no token can be drawn, all logits are masked or NaN
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
};

// Which tokens may be drawn at all, as in MaskTokens: bit i mod 32 of word i / 32. Tokens beyond the words may not. No
// words: all may.
using TokenSet = std::vector<int32_t>;

// Not thread-safe. Holds arrays for up to `rows` rows in the executor's memory.
class Sampler {
 public:
  Sampler(Executor& executor, int64_t vocabulary, int32_t rows, TokenSet allowed);
  // Draws a token from each row of logits, f32 [rows.size(), vocabulary], which are changed on the way.
  std::vector<Drawn> draw(Tensor logits, std::span<const DrawRow> rows);
  // Words of a set over the whole vocabulary: what may be drawn where a row has no set of its own.
  const TokenSet& allowed() const { return allowed_; }

 private:
  void penalise(Tensor logits, std::span<const DrawRow> rows);
  void mask(Tensor logits, std::span<const DrawRow> rows);

  Executor* executor_;
  int32_t rows_;
  bool restricted_;  // the tokenizer lacks tokens of the vocabulary
  TokenSet allowed_;
  Memory arrays_, entry_memory_, row_masks_;  // row_masks_: allocated when a row first brings a set
  Tensor mask_, params_, starts_, penalties_, results_;
};

}  // namespace braid
