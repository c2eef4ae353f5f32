// From logits to tokens: penalties, masks, the draw, and log-probabilities (semantics section 20).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace braid {

// What one row remembers of one token: how often it was generated, whether it occurred at all, and its logit bias.
struct TokenEntry {
  int32_t token = 0;
  int32_t count = 0;  // occurrences among generated tokens
  int32_t seen = 0;   // 1: occurred in prompt or output
  float bias = 0.0f;
};

struct Penalties {
  float repetition = 1.0f, frequency = 0.0f, presence = 0.0f;
};

// logits[r, e.token] for every entry e of row r:  z <- z > 0 ? z / repetition : z * repetition (if seen);
// z <- z - frequency * count - presence * [count > 0] + bias.  No token occurs twice in a row's entries.
// Shapes  logits: f32 [rows, vocabulary]; starts: i32 [rows + 1]; entries: TokenEntry [starts[rows]] as u8 [n, 16];
//         penalties: f32 [rows, 3] as in Penalties
struct Penalise {
  static constexpr std::string_view name = "penalise";
  Tensor logits, starts, entries, penalties;
  void fields(auto&& visit) {
    visit.inout("logits", logits), visit.in("starts", starts), visit.in("entries", entries),
        visit.in("penalties", penalties);
  }
};

// logits[r, i] = -infinity where bit i of the mask is 0.
// Shapes  logits: f32 [rows, vocabulary]; mask: i32 [rows or 1, ceil(vocabulary / 32)], least significant bit first;
// one row of
//         mask serves all rows
struct MaskTokens {
  static constexpr std::string_view name = "mask_tokens";
  Tensor logits, mask;
  void fields(auto&& visit) { visit.inout("logits", logits), visit.in("mask", mask); }
};

// How one row draws. temperature 0: the largest logit. top_k 0, top_p 1, min_p 0: off.
struct SampleRow {
  float temperature = 0.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  uint64_t key = 0;       // the request's random key
  uint64_t position = 0;  // absolute position of the token that is drawn
};

// tokens[r] = a draw from logits[r, :]: divide by temperature, keep the top_k largest, then the smallest set of largest
// probabilities that sum to at least top_p (one at least), then those with probability >= min_p * largest; after each
// cut the kept probabilities are divided by their sum. The draw is the first kept token, in descending order (ties:
// lower id first), whose cumulated probability exceeds uniform(key, position, 0). logprobs[r] = log softmax of the
// logits at the token, before temperature and truncation. NaN counts as -infinity. A row of -infinity alone gives token
// -1 and log-probability -infinity. Shapes  tokens: i32 [rows]; logprobs: f32 [rows]; logits: f32 [rows, vocabulary];
// params: SampleRow [rows] as u8
//         [rows, 32]
struct Sample {
  static constexpr std::string_view name = "sample";
  Tensor tokens, logprobs, logits, params;
  void fields(auto&& visit) {
    visit.out("tokens", tokens), visit.out("logprobs", logprobs), visit.in("logits", logits),
        visit.in("params", params);
  }
};

// The n most likely tokens of each row with their log-probabilities, descending, ties to the lower id. NaN counts as
// -infinity; where fewer than n tokens are above that, the rest is token -1 with log-probability -infinity.
// Shapes  tokens: i32 [rows, n]; logprobs: f32 [rows, n]; logits: f32 [rows, vocabulary]
struct TopLogprobs {
  static constexpr std::string_view name = "top_logprobs";
  Tensor tokens, logprobs, logits;
  void fields(auto&& visit) {
    visit.out("tokens", tokens), visit.out("logprobs", logprobs), visit.in("logits", logits);
  }
};

static_assert(sizeof(TokenEntry) == 16 && sizeof(SampleRow) == 32 && sizeof(Penalties) == 12);

}  // namespace braid
