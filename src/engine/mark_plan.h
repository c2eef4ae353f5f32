// At which lengths of a prompt its state is kept for later requests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "state/need.h"

namespace braid {

struct MarkPlan {
  int64_t prompt = 0;                // tokens
  std::span<const int64_t> borders;  // of the request
  int64_t interval = 0;              // a multiple of 64
  int64_t cached = 0;                // where the computation begins
  int64_t common = 0;                // how far an earlier request, of which less is held, agrees with the prompt
  bool strict = false;               // multiples of 64 alone
};

// Ascending, within (cached, prompt): the request's borders; each interval; where an earlier request parted from this
// prompt, since others may do so too; and right before the last token, for those that ask the same again: where one of
// these others is close, only once somebody did.
std::vector<int64_t> mark_lengths(const MarkPlan& plan);

// How many tokens lie between marks so that their states cost about as much memory as keys and values; at least four
// chunks of the recurrent parts, at most 4096 tokens.
int64_t mark_interval(std::span<const StateNeed> needs);

}  // namespace braid
